"""Sampling with a KV cache equals sampling without one, for any other rows."""

import pytest
import torch
from transformers import GenerationConfig

from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from trainer.config.run import PolicyConfig
from trainer.engines.sampler import DivergedError, SamplingParams
from trainer.engines.stop_text import StopText
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.learner.learner import Learner
from trainer.policy.load import load
from trainer.rollout.trajectory import Trajectory, collate

EOS = 5  # random weights make an early end token unlikely; a more frequent one makes rows ragged
PROMPTS = [[11, 12, 13, 14], [21], [31, 32, 33, 34, 35, 36, 37], [11, 12, 13, 14], [41, 42], [21]]
LATER = [[51, 52], [61, 62, 63], [71], [81, 82, 83, 84], [91], [51, 52]]


@pytest.fixture(scope="module", params=["pocket", "llama"])
def model(request, pocket_folder, llama_folder):
    """Two architectures with random weights."""
    folder = {"pocket": pocket_folder, "llama": llama_folder}[request.param]
    return load(folder, PolicyConfig()).model


class EarlyEnding(TransformersSampler):
    """Samples the end token more often, so that responses have different lengths."""

    def __init__(self, model):
        super().__init__(model, EOS)
        head = self.head

        def lifted(hidden):
            logits = head(hidden)
            lift = torch.zeros(logits.shape[-1])
            lift[EOS] = 3.5
            return logits + lift

        self.head = lifted


def sample(sampler, rows, turns=3, params=None, seeds=None):
    """Sample the given rows in one session; by row, the prompts and the responses."""
    params = params or SamplingParams(max_tokens=9)
    session = sampler.session([seeds[row] if seeds else 100 + row for row in rows], params)
    prompts_of = {row: [] for row in rows}
    responses = {row: [] for row in rows}
    for turn in range(turns):
        prompts = {place: PROMPTS[row] if turn == 0 else LATER[row] for place, row in enumerate(rows)}
        for place, response in session.generate(prompts):
            responses[rows[place]].append(response)
        for row in rows:
            prompts_of[row].append(PROMPTS[row] if turn == 0 else LATER[row])
    return prompts_of, responses


def trajectory(prompts, responses):
    played = Trajectory(id="t", group=0, member=0)
    for turn, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        played.append_prompt(prompt)
        played.append_response(response.ids, response.logprobs, response.entropies, turn)
    return played


def same(ours, theirs):
    assert [r.ids for r in ours] == [r.ids for r in theirs]
    assert [r.ended for r in ours] == [r.ended for r in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert one.entropies == pytest.approx(other.entropies, abs=1e-5)


def test_rows_end_at_different_lengths_by_the_end_token_or_the_limit(model):
    _, responses = sample(EarlyEnding(model), range(6))
    every = [response for row in responses.values() for response in row]
    assert len({len(response.ids) for response in every}) > 2
    assert {response.ended for response in every} == {True, False}
    for response in every:
        assert len(response.ids) == len(response.logprobs) == len(response.entropies) <= 9
        assert response.ended == (response.ids[-1] == EOS)
        assert EOS not in response.ids[:-1]
        assert response.ended or len(response.ids) == 9


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_equal_the_trainers(pocket_folder, llama_folder, temperature):
    for folder in (pocket_folder, llama_folder):
        policy = load(folder, PolicyConfig())
        sampler = TransformersSampler(policy.model, EOS)
        prompts, responses = sample(sampler, range(6), params=SamplingParams(temperature=temperature, max_tokens=9))
        batch = collate([trajectory(prompts[row], responses[row]) for row in range(6)], pad_id=0)
        learner = Learner(tiny.config(folder, rollout={"temperature": temperature}), policy)
        scores = learner.score(batch)
        assert torch.allclose(scores.logprobs, batch.sampler_logprobs, atol=1e-4)
        entropies = [entropy for row in range(6) for response in responses[row] for entropy in response.entropies]
        assert scores.entropies[batch.mask].tolist() == pytest.approx(entropies, abs=1e-4)


def test_log_probabilities_equal_one_forward_pass_over_the_dialogue(model):
    prompts, responses = sample(EarlyEnding(model), range(6))
    for row in range(6):
        played = trajectory(prompts[row], responses[row])
        logits = model(input_ids=torch.tensor([played.ids])).logits[0].detach().float()
        logits[:, EOS] += 3.5
        expected = torch.log_softmax(logits[:-1], -1).gather(-1, torch.tensor(played.ids)[1:, None])[:, 0]
        for place, (sampled, logprob) in enumerate(zip(played.sampled, played.logprobs, strict=True)):
            if sampled:
                assert logprob == pytest.approx(float(expected[place - 1]), abs=1e-4)


def test_a_row_depends_neither_on_other_rows_nor_on_their_order(model):
    seeds = {row: 7 * row for row in range(6)}
    _, together = sample(EarlyEnding(model), [0, 1, 2, 3, 4, 5], seeds=seeds)
    _, shuffled = sample(EarlyEnding(model), [4, 2, 5, 0, 3, 1], seeds=seeds)
    for row in range(6):
        _, alone = sample(EarlyEnding(model), [row], seeds=seeds)
        same(together[row], alone[row])
        same(together[row], shuffled[row])


def test_rows_may_pause_and_resume(model):
    sampler, params = EarlyEnding(model), SamplingParams(max_tokens=9)
    seeds = [3, 4, 5]
    session = sampler.session(seeds, params)
    first = dict(session.generate({0: PROMPTS[0], 1: PROMPTS[1], 2: PROMPTS[2]}))
    second = dict(session.generate({1: LATER[1]}))
    third = dict(session.generate({2: LATER[2], 0: LATER[0], 1: LATER[0]}))
    for row, expected in {
        0: [(PROMPTS[0], first[0]), (LATER[0], third[0])],
        1: [(PROMPTS[1], first[1]), (LATER[1], second[1]), (LATER[0], third[1])],
        2: [(PROMPTS[2], first[2]), (LATER[2], third[2])],
    }.items():
        alone = sampler.session([seeds[row]], params)
        same([dict(alone.generate({0: prompt}))[0] for prompt, _ in expected], [response for _, response in expected])


def test_rows_appended_during_sampling_equal_turn_by_turn_sampling(model):
    sampler, params = EarlyEnding(model), SamplingParams(max_tokens=9)
    by_turn = sampler.session(range(6), params)
    expected = list(by_turn.generate(dict(enumerate(PROMPTS))))
    expected += list(by_turn.generate({row: LATER[row] for row in (0, 2, 3, 5)}))
    at_once = sampler.session(range(6), params)
    received = []
    for row, response in at_once.generate(dict(enumerate(PROMPTS))):
        received.append((row, response))
        if row in (0, 2, 3, 5) and len([1 for other, _ in received if other == row]) == 1:
            at_once.append(row, LATER[row])
    assert [row for row, _ in received] == [row for row, _ in expected]
    same([response for _, response in received], [response for _, response in expected])


def test_shared_prefixes_are_computed_once_and_equal_separate_prompts(model):
    """Two groups of four with the same instruction; one row of the first group has a longer prompt."""
    instruction = list(range(10, 70))
    first, second = instruction + list(range(100, 160)), instruction + list(range(200, 270))
    shared, seeds = [first, first, [*first, 7, 8, 9], first, second, second, second, second], list(range(8))
    read = []
    sampler = EarlyEnding(model)
    handle = model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    try:
        session = sampler.session(seeds, SamplingParams(max_tokens=9))
        together = dict(session.generate(dict(enumerate(shared))))
    finally:
        handle.remove()
    assert read[:3] == [(1, 60), (2, 69), (8, 4)], (
        "the instruction, the prefixes of the groups, the last tokens of all rows"
    )
    again = dict(session.generate({row: LATER[row % 6] for row in range(8)}))
    for row in range(8):
        alone = sampler.session([seeds[row]], SamplingParams(max_tokens=9))
        same([dict(alone.generate({0: shared[row]}))[0]], [together[row]])
        same([dict(alone.generate({0: LATER[row % 6]}))[0]], [again[row]])


def test_greedy_sampling_equals_generate_on_the_whole_dialogue(model):
    params = SamplingParams(temperature=0.0, max_tokens=7)
    settings = GenerationConfig(max_new_tokens=7, do_sample=False, eos_token_id=EOS, pad_token_id=0)
    session = TransformersSampler(model, EOS).session([1] * 6, params)
    texts = [[] for _ in range(6)]
    for turn in range(3):
        prompts = {row: (PROMPTS if turn == 0 else LATER)[row] for row in range(6)}
        for row in range(6):
            texts[row] += prompts[row]
        for row, response in session.generate(prompts):
            whole = model.generate(torch.tensor([texts[row]]), generation_config=settings)[0].tolist()
            assert response.ids == whole[len(texts[row]) :]
            texts[row] += response.ids


def test_a_response_depends_on_seed_and_turn_only(model):
    _, once = sample(EarlyEnding(model), range(3))
    _, again = sample(EarlyEnding(model), range(3))
    _, other = sample(EarlyEnding(model), range(3), seeds=[900, 901, 902])
    torch.manual_seed(99)
    for row in range(3):
        same(once[row], again[row])
    assert [r.ids for r in once[0]] != [r.ids for r in other[0]]


def test_a_reset_row_samples_like_a_fresh_one(model):
    """Row 0 is reset to a prompt with a cached prefix, row 1 to another one; row 2 continues."""
    sampler, params, seeds = EarlyEnding(model), SamplingParams(max_tokens=9), [3, 4, 5]
    new_prompts = {0: [*PROMPTS[0][:2], 77, 78], 1: PROMPTS[2]}
    session = sampler.session(seeds, params)
    first = dict(session.generate(dict(enumerate(PROMPTS[:3]))))
    session.reset_row(0)
    session.reset_row(1)
    second = dict(session.generate({2: LATER[2], 1: new_prompts[1], 0: new_prompts[0]}))
    third = dict(session.generate({0: LATER[0], 1: LATER[1], 2: LATER[0]}))
    session.reset_row(0)
    fourth = dict(session.generate({0: PROMPTS[0]}))
    for row in (0, 1):
        alone = sampler.session([seeds[row]], params, turns=[1])  # the random numbers of a second turn
        same([dict(alone.generate({0: new_prompts[row]}))[0]], [second[row]])
        same([dict(alone.generate({0: LATER[row]}))[0]], [third[row]])
    alone = sampler.session([seeds[2]], params)
    expected = [dict(alone.generate({0: prompt}))[0] for prompt in (PROMPTS[2], LATER[2], LATER[0])]
    same(expected, [first[2], second[2], third[2]])
    alone = sampler.session([seeds[0]], params, turns=[3])
    same([dict(alone.generate({0: PROMPTS[0]}))[0]], [fourth[0]])


def test_a_reset_row_does_not_prefill_its_cached_prefix_again(model):
    session = TransformersSampler(model, EOS).session([1], SamplingParams(max_tokens=4))
    (response,) = dict(session.generate({0: PROMPTS[2]})).values()
    session.reset_row(0)
    read = []
    handle = model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(kwargs["input_ids"].tolist()), with_kwargs=True
    )
    try:
        list(session.generate({0: [*PROMPTS[2], response.ids[0] + 1, 8, 9]}))
    finally:
        handle.remove()
    assert read[0] == [[response.ids[0] + 1, 8, 9]]


def test_log_probabilities_are_of_the_tempered_distribution(model):
    params = SamplingParams(temperature=0.8, max_tokens=6)
    prompts, responses = sample(TransformersSampler(model, EOS), range(4), turns=1, params=params)
    for row in range(4):
        ids = prompts[row][0] + responses[row][0].ids
        logits = model(input_ids=torch.tensor([ids])).logits[0].detach().float()
        for place, token in enumerate(responses[row][0].ids):
            before = logits[len(prompts[row][0]) + place - 1]
            expected = float(torch.log_softmax(before / 0.8, -1)[token])
            assert responses[row][0].logprobs[place] == pytest.approx(expected, abs=1e-4)


def test_token_frequencies_match_the_distribution(model):
    session = TransformersSampler(model, EOS).thread_session([0], SamplingParams(), None, [0])
    logits = torch.full((3, 8), -torch.inf)
    logits[:, 2:4] = 9.0
    uniform = torch.tensor([0.0, 0.5, 1 - 2**-24])
    tokens, _, _ = session._sample_step(logits, uniform)
    assert set(tokens.tolist()) <= {2, 3}
    mass = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0, 0.0]]).log().expand(20_000, 6)
    drawn, _, _ = session._sample_step(mass, torch.rand(20_000, generator=torch.Generator().manual_seed(0)))
    for token, share in enumerate([0.1, 0.2, 0.3, 0.4, 0.0, 0.0]):
        assert (drawn == token).float().mean().item() == pytest.approx(share, abs=0.02)


def test_an_empty_prompt_is_refused(model):
    session = TransformersSampler(model, EOS).session([0], SamplingParams())
    with pytest.raises(ValueError, match="at least one token"):
        list(session.generate({0: []}))
    assert list(session.generate({})) == []


def test_diverged_weights_are_reported_as_the_cause(pocket_folder):
    model = load(pocket_folder, PolicyConfig()).model
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    session = TransformersSampler(model, EOS).session([0], SamplingParams())
    with pytest.raises(DivergedError, match=r"smaller optimizer\.policy_lr"):
        list(session.generate({0: [1, 2]}))


class RowListener:
    """Records the tokens of one row."""

    def __init__(self, row):
        self.row, self.received = row, []

    def select_rows(self, rows):
        return [row for row in rows if row == self.row]

    def on_tokens(self, row, ids):
        self.received.append((row, ids))


def test_a_listener_receives_its_growing_row(model):
    listener = RowListener(2)
    session = EarlyEnding(model).session([1, 2, 3], SamplingParams(max_tokens=20), listener)
    response = dict(session.generate({row: PROMPTS[row] for row in range(3)}))[2]
    assert listener.received
    for row, ids in listener.received:
        assert row == 2
        assert ids == response.ids[: len(ids)]


def test_a_script_is_replayed_by_row_and_raises_when_too_short(chat):
    script = [[tiny.sampled(chat, "a"), tiny.sampled(chat, "b")], [tiny.sampled(chat, "c")]]
    sampler = ScriptedSampler(script)
    session = sampler.session([0, 0], SamplingParams())
    assert dict(session.generate({0: [1], 1: [2]})) == {0: script[0][0], 1: script[1][0]}
    assert dict(session.generate({0: [3]})) == {0: script[0][1]}
    assert sampler.prompts == [[[1], [3]], [[2]]]
    with pytest.raises(ValueError, match="dialogue 1 ends after 1 turns"):
        list(session.generate({1: [4]}))
    with pytest.raises(ValueError, match="3 dialogues were requested, but only 2"):
        sampler.session([0, 0, 0], SamplingParams())


@pytest.mark.parametrize("threads", [0, 2])
def test_a_response_that_stops_at_a_text_is_the_beginning_of_the_whole_one(pocket_folder, threads):
    policy = load(pocket_folder, PolicyConfig())
    sampler = TransformersSampler(policy.model, eos_id=-1, pad_id=0, threads=threads)
    _, whole = sample(sampler, range(6), turns=1, params=SamplingParams(max_tokens=24))
    rows = {row: policy.tokenizer.decode(responses[0].ids) for row, responses in whole.items()}
    text = next(text[at : at + 2] for text in rows.values() for at in range(8, 20) if text[at : at + 2].isascii())
    stop = StopText(text, policy.tokenizer)
    prompts, responses = sample(sampler, range(6), turns=2, params=SamplingParams(max_tokens=24, stop=stop))
    assert any(responses[row][0].stopped for row in rows)
    for row, (first, second) in responses.items():
        full, length = whole[row][0], stop.length(whole[row][0].ids)
        assert first.ids == full.ids[:length]
        assert first.stopped == (length is not None)
        assert first.truncated == (length is None)
        assert not first.ended
        torch.testing.assert_close(first.logprobs, full.logprobs[:length], atol=1e-5, rtol=1e-5)
        # what follows is sampled after exactly the tokens of the dialogue, as by a session that reads it anew
        session = sampler.session([100 + row], SamplingParams(max_tokens=24, stop=stop), turns=[1])
        dialogue = prompts[row][0] + first.ids + prompts[row][1]
        ((_, again),) = list(session.generate({0: dialogue}))
        assert again.ids == second.ids
        torch.testing.assert_close(again.logprobs, second.logprobs, atol=1e-4, rtol=1e-4)
