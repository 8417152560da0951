"""Short chat templates that write calls and results as the templates of further families do."""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from tests.trainer import tiny

_ARGUMENTS = "{% for key, value in call.function.arguments.items() %}"
_PLAIN = "(value if value is string else value | tojson)"


def template(
    *,
    turn: str,
    end: str,
    call: str,
    result: str,
    definitions: str = "{{ tools | tojson }}",
    calls: tuple[str, str, str] = ("", "", ""),
    assistant: str = "assistant",
    opens: str = "",
) -> str:
    """A template of turns with a role.

    Args:
        turn: beginning of a turn, with ROLE for the role.
        end: of a turn.
        call: one call, as Jinja text.
        result: the message with a result, as Jinja text.
        definitions: of tools, in the first system message.
        calls: text before, between and after the calls.
        assistant: the role's name.
        opens: text at the end of the generation prompt.
    """
    before, between, after = calls
    head = "{{ '" + turn.replace("ROLE", "' + message.role + '") + "' + message.content }}"
    answer = f"{{{{ '{turn.replace('ROLE', assistant)}' }}}}"
    return (
        "{% for message in messages %}"
        f"{{% if message.role == 'system' %}}{head}{{% if tools %}}{definitions}{{% endif %}}{{{{ '{end}' }}}}"
        f"{{% elif message.role == 'assistant' %}}{answer}{{{{ message.content }}}}"
        f"{{% for call in message.tool_calls or [] %}}{{{{ '{before}' if loop.first else '{between}' }}}}{call}"
        f"{{{{ '{after}' if loop.last else '' }}}}{{% endfor %}}{{{{ '{end}' }}}}"
        f"{{% elif message.role == 'tool' %}}{result}"
        f"{{% else %}}{head}{{{{ '{end}' }}}}{{% endif %}}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{answer}{{{{ '{opens}' }}}}{{% endif %}}"
    )


CHATML = "<|im_start|>ROLE\\n"
QWEN3_CODER = template(
    turn=CHATML,
    end="<|im_end|>\\n",
    call="{{ '<tool_call>\\n<function=' + call.function.name + '>\\n' }}"
    + _ARGUMENTS
    + "{{ '<parameter=' + key + '>\\n' + (value if value is string else value | string) + '\\n</parameter>\\n' }}"
    + "{% endfor %}{{ '</function>\\n</tool_call>' }}",
    calls=("", "\\n", ""),
    result="{{ '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}",
)
OLMO = template(
    turn=CHATML,
    end="<|im_end|>\\n",
    call="{{ call.function.name + '(' }}"
    + _ARGUMENTS
    + "{{ key + '=' + (value | tojson) + ('' if loop.last else ', ') }}{% endfor %}{{ ')' }}",
    calls=("<function_calls>", "\\n", "</function_calls>"),
    result="{{ '<|im_start|>environment\\n' + message.content + '<|im_end|>\\n' }}",
)
SEED = template(
    turn="<seed:bos>ROLE\\n",
    end="<seed:eos>",
    call="{{ '<seed:tool_call>\\n<function=' + call.function.name + '>\\n' }}"
    + _ARGUMENTS
    + "{{ '<parameter=' + key + '>' + (value if value is string else value | string) + '</parameter>\\n' }}"
    + "{% endfor %}{{ '</function>\\n</seed:tool_call>' }}",
    result="{{ '<seed:bos>tool\\n' + message.content + '<seed:eos>' }}",
)
MINIMAX = template(
    turn="]~b]ROLE\\n",
    end="[e~[\\n",
    call="{{ '<invoke name=\"' + call.function.name + '\">\\n' }}"
    + _ARGUMENTS
    + "{{ '<parameter name=\"' + key + '\">' + "
    + _PLAIN
    + " + '</parameter>\\n' }}{% endfor %}{{ '</invoke>\\n' }}",
    calls=("\\n<minimax:tool_call>\\n", "", "</minimax:tool_call>"),
    result="{{ ']~b]tool\\n<response>' + message.content + '</response>[e~[\\n' }}",
    assistant="ai",
    opens="<think>\\n",
)
GLM = template(  # no token ends a turn: it ends where the next one begins
    turn="<|ROLE|>\\n",
    end="",
    call="{{ '\\n<tool_call>' + call.function.name + '\\n' }}"
    + _ARGUMENTS
    + "{{ '<arg_key>' + key + '</arg_key>\\n<arg_value>' + "
    + _PLAIN
    + " + '</arg_value>\\n' }}{% endfor %}{{ '</tool_call>' }}",
    result="{{ '<|observation|>\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}",
)
GRANITE = (  # 3.3: calls of earlier turns are dropped
    "{% if tools %}{{ '<|start_of_role|>available_tools<|end_of_role|>' + (tools | tojson) + '<|end_of_text|>\n' }}"
    "{% if messages[0].role != 'system' %}{{ 'Respond with <|tool_call|> and a list.\n' }}{% endif %}{% endif %}"
    "{% for message in messages %}"
    "{{ '<|start_of_role|>' + message.role + '<|end_of_role|>' + message.content + '<|end_of_text|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"
)
PHI = (  # definitions are a field of the system message, and calls the content of their message
    "{% for message in messages %}{{ '<|' + message.role + '|>' + message.content }}"
    "{% if message.role == 'system' and message.tools %}{{ '<|tool|>' + message.tools + '<|/tool|>' }}{% endif %}"
    "{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
_DEEPSEEK = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content }}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% elif message.role == 'user' %}{{ '<｜User｜>' + message.content + '<｜Assistant｜>' }}"
    "{% elif message.tool_calls %}{% for call in message.tool_calls %}"
    "{{ ('<｜tool▁calls▁begin｜>' if loop.first else BETWEEN) + '<｜tool▁call▁begin｜>' + NAMED"
    " + call.function.arguments + CLOSED + '<｜tool▁call▁end｜>' }}{% endfor %}"
    "{{ '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}"
    "{% elif message.role == 'assistant' %}{{ message.content + '<｜end▁of▁sentence｜>' }}"
    "{% elif message.role == 'tool' %}"
    "{{ '<｜tool▁output▁begin｜>' + message.content + '<｜tool▁output▁end｜>' }}{% endif %}{% endfor %}"
)
DEEPSEEK_V3 = (
    _DEEPSEEK.replace("BETWEEN", "'\n'")
    .replace("NAMED", "'function<｜tool▁sep｜>' + call.function.name + '\n```json\n'")
    .replace("CLOSED", "'\n```'")
)
DEEPSEEK_V31 = (
    _DEEPSEEK.replace("BETWEEN", "''").replace("NAMED", "call.function.name + '<｜tool▁sep｜>'").replace("CLOSED", "''")
)
HUNYUAN = template(
    turn="<|hy_ROLE|>",
    end="<|hy_eos|>",
    call="{{ '<tool_call>' + call.function.name + '\\n```json\\n' + call.function.arguments + '\\n```</tool_call>' }}",
    calls=("<tool_calls>", "\\n", "</tool_calls>"),
    result="{{ '<|hy_user|><tool_response>' + message.content + '</tool_response><|hy_eos|>' }}",
)
LFM2 = template(  # the first version: calls are the content of their message
    turn=CHATML,
    end="<|im_end|>\\n",
    call="",
    definitions="{{ '\\nList of tools: <|tool_list_start|>' + (tools | tojson) + '<|tool_list_end|>' }}",
    result="{{ '<|im_start|>tool\\n<|tool_response_start|>' + message.content"
    " + '<|tool_response_end|><|im_end|>\\n' }}",
)
COMMAND = template(
    turn="<|START_OF_TURN_TOKEN|><|ROLE_TOKEN|>",
    end="<|END_OF_TURN_TOKEN|>",
    call='{{ \'{"tool_call_id": "0", "tool_name": "\' + call.function.name + \'", "parameters": \''
    " + (call.function.arguments | tojson) + '}' }}",
    calls=("<|START_ACTION|>[", ", ", "]<|END_ACTION|>"),
    result="{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TOOL_RESULT|>' + (message.content | tojson)"
    " + '<|END_TOOL_RESULT|><|END_OF_TURN_TOKEN|>' }}",
    assistant="CHATBOT",
)


def family_tokenizers() -> dict[str, PreTrainedTokenizerFast]:
    """By call format: a tokenizer of each further family."""
    chatml = ["<|im_start|>", "<|im_end|>"]
    roles = ["<|system|>", "<|user|>", "<|assistant|>"]
    granite = ["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>"]
    deepseek = ["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"]
    command = ["<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>"]
    phi = [*roles, "<|end|>", "<|tool|>", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>"]
    return {
        "qwen3_coder": tiny.bpe(chatml, QWEN3_CODER, "<|im_end|>"),
        "glm": tiny.bpe([*roles, "<|observation|>", "<|endoftext|>"], GLM, "<|endoftext|>"),
        "minimax": tiny.bpe(["]~b]", "[e~["], MINIMAX, "[e~["),
        "seed_oss": tiny.bpe(["<seed:bos>", "<seed:eos>"], SEED, "<seed:eos>"),
        "phi4_mini": tiny.bpe(phi, PHI, "<|end|>"),
        "granite": tiny.bpe(granite, GRANITE, "<|end_of_text|>"),
        "deepseek_v3": tiny.bpe(deepseek, DEEPSEEK_V3, "<｜end▁of▁sentence｜>"),
        "deepseek_v31": tiny.bpe(deepseek, DEEPSEEK_V31, "<｜end▁of▁sentence｜>"),
        "olmo3": tiny.bpe(chatml, OLMO, "<|im_end|>"),
        "lfm2": tiny.bpe([*chatml, "<|tool_call_start|>", "<|tool_call_end|>"], LFM2, "<|im_end|>"),
        "command": tiny.bpe(command, COMMAND, "<|END_OF_TURN_TOKEN|>"),
        "hunyuan": tiny.bpe(["<|hy_user|>", "<|hy_assistant|>", "<|hy_eos|>"], HUNYUAN, "<|hy_eos|>"),
    }
