"""The policy: model, tokenizer, chat format, forward passes."""
