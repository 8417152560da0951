"""Sampling with a kept cache says the same as reading everything anew, whatever plays beside a row."""

import pytest
import torch
from transformers import GenerationConfig

from tests.trainer import tiny
from trainer.config.run import PolicyConfig
from trainer.engines.base import DivergedError, SamplingParams
from trainer.engines.scripted import ScriptedSampler
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.learner.learner import Learner
from trainer.policy.load import load
from trainer.rollout.trajectory import Trajectory, collate

EOS = 5  # among random weights an early end is as likely as any token; a common one makes rows ragged
PROMPTS = [[11, 12, 13, 14], [21], [31, 32, 33, 34, 35, 36, 37], [11, 12, 13, 14], [41, 42], [21]]
LATER = [[51, 52], [61, 62, 63], [71], [81, 82, 83, 84], [91], [51, 52]]


@pytest.fixture(scope="module", params=["pocket", "llama"])
def model(request, pocket_folder, llama_folder):
    """Two architectures with random weights."""
    folder = {"pocket": pocket_folder, "llama": llama_folder}[request.param]
    return load(folder, PolicyConfig()).model


class Eager(TransformersSampler):
    """Draws a given token more often, so that responses end at different lengths."""

    def __init__(self, model):
        super().__init__(model, EOS)
        head = self.head

        def lifted(hidden):
            logits = head(hidden)
            lift = torch.zeros(logits.shape[-1])
            lift[EOS] = 3.5
            return logits + lift

        self.head = lifted


def play(sampler, rows, turns=3, params=None, seeds=None):
    """Play the given rows together; by row, the tokens read and the responses."""
    params = params or SamplingParams(max_tokens=9)
    session = sampler.session([seeds[row] if seeds else 100 + row for row in rows], params)
    read = {row: [] for row in rows}
    responses = {row: [] for row in rows}
    for turn in range(turns):
        prompts = {place: PROMPTS[row] if turn == 0 else LATER[row] for place, row in enumerate(rows)}
        for place, response in session.generate(prompts):
            responses[rows[place]].append(response)
        for row in rows:
            read[row].append(PROMPTS[row] if turn == 0 else LATER[row])
    return read, responses


def trajectory(read, responses):
    played = Trajectory(id="t", group=0, member=0)
    for turn, (prompt, response) in enumerate(zip(read, responses, strict=True)):
        played.read(prompt)
        played.wrote(response.ids, response.logprobs, response.entropies, turn)
    return played


def same(ours, theirs):
    assert [r.ids for r in ours] == [r.ids for r in theirs]
    assert [r.ended for r in ours] == [r.ended for r in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert one.entropies == pytest.approx(other.entropies, abs=1e-5)


def test_rows_end_at_different_lengths_by_the_end_token_or_the_limit(model):
    _, responses = play(Eager(model), range(6))
    every = [response for row in responses.values() for response in row]
    assert len({len(response.ids) for response in every}) > 2
    assert {response.ended for response in every} == {True, False}
    for response in every:
        assert len(response.ids) == len(response.logprobs) == len(response.entropies) <= 9
        assert response.ended == (response.ids[-1] == EOS)
        assert EOS not in response.ids[:-1]
        assert response.ended or len(response.ids) == 9


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_are_the_trainers(pocket_folder, llama_folder, temperature):
    for folder in (pocket_folder, llama_folder):
        policy = load(folder, PolicyConfig())
        sampler = TransformersSampler(policy.model, EOS)
        read, responses = play(sampler, range(6), params=SamplingParams(temperature=temperature, max_tokens=9))
        batch = collate([trajectory(read[row], responses[row]) for row in range(6)], pad_id=0)
        learner = Learner(tiny.config(folder, rollout={"temperature": temperature}), policy)
        scores = learner.score(batch)
        assert torch.allclose(scores.logprobs, batch.sampler_logprobs, atol=1e-4)
        entropies = [entropy for row in range(6) for response in responses[row] for entropy in response.entropies]
        assert scores.entropies[batch.mask].tolist() == pytest.approx(entropies, abs=1e-4)


def test_log_probabilities_are_those_of_the_whole_text_read_at_once(model):
    read, responses = play(Eager(model), range(6))
    for row in range(6):
        played = trajectory(read[row], responses[row])
        logits = model(input_ids=torch.tensor([played.ids])).logits[0].detach().float()
        logits[:, EOS] += 3.5
        expected = torch.log_softmax(logits[:-1], -1).gather(-1, torch.tensor(played.ids)[1:, None])[:, 0]
        for place, (written, logprob) in enumerate(zip(played.sampled, played.logprobs, strict=True)):
            if written:
                assert logprob == pytest.approx(float(expected[place - 1]), abs=1e-4)


def test_a_row_does_not_depend_on_what_plays_beside_it_nor_on_the_order(model):
    seeds = {row: 7 * row for row in range(6)}
    _, together = play(Eager(model), [0, 1, 2, 3, 4, 5], seeds=seeds)
    _, shuffled = play(Eager(model), [4, 2, 5, 0, 3, 1], seeds=seeds)
    for row in range(6):
        _, alone = play(Eager(model), [row], seeds=seeds)
        same(together[row], alone[row])
        same(together[row], shuffled[row])


def test_rows_may_pause_and_come_back(model):
    sampler, params = Eager(model), SamplingParams(max_tokens=9)
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


def test_rows_added_while_others_are_continued_say_what_they_say_turn_by_turn(model):
    sampler, params = Eager(model), SamplingParams(max_tokens=9)
    by_turn = sampler.session(range(6), params)
    expected = list(by_turn.generate(dict(enumerate(PROMPTS))))
    expected += list(by_turn.generate({row: LATER[row] for row in (0, 2, 3, 5)}))
    at_once = sampler.session(range(6), params)
    heard = []
    for row, response in at_once.generate(dict(enumerate(PROMPTS))):
        heard.append((row, response))
        if row in (0, 2, 3, 5) and len([1 for other, _ in heard if other == row]) == 1:
            at_once.append(row, LATER[row])
    assert [row for row, _ in heard] == [row for row, _ in expected]
    same([response for _, response in heard], [response for _, response in expected])


def test_what_prompts_begin_with_is_read_once_and_gives_the_same_as_read_separately(model):
    """Two groups of four with the same instruction; one of the first group has more to read than the others."""
    instruction = list(range(10, 70))
    first, second = instruction + list(range(100, 160)), instruction + list(range(200, 270))
    shared, seeds = [first, first, [*first, 7, 8, 9], first, second, second, second, second], list(range(8))
    read = []
    sampler = Eager(model)
    handle = model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    try:
        session = sampler.session(seeds, SamplingParams(max_tokens=9))
        together = dict(session.generate(dict(enumerate(shared))))
    finally:
        handle.remove()
    assert read[:3] == [(1, 60), (2, 69), (8, 4)], (
        "the instruction, what groups have in common, everybody's last tokens"
    )
    again = dict(session.generate({row: LATER[row % 6] for row in range(8)}))
    for row in range(8):
        alone = sampler.session([seeds[row]], SamplingParams(max_tokens=9))
        same([dict(alone.generate({0: shared[row]}))[0]], [together[row]])
        same([dict(alone.generate({0: LATER[row % 6]}))[0]], [again[row]])


def test_greedy_sampling_says_what_generate_says_on_the_whole_text_of_every_turn(model):
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


def test_a_response_depends_on_seed_and_turn_alone(model):
    _, once = play(Eager(model), range(3))
    _, again = play(Eager(model), range(3))
    _, other = play(Eager(model), range(3), seeds=[900, 901, 902])
    torch.manual_seed(99)
    for row in range(3):
        same(once[row], again[row])
    assert [r.ids for r in once[0]] != [r.ids for r in other[0]]


def test_a_restarted_row_says_what_it_would_say_if_it_had_never_read_anything_else(model):
    """Row 0 starts anew with a beginning it has read before, row 1 with something else; row 2 just goes on."""
    sampler, params, seeds = Eager(model), SamplingParams(max_tokens=9), [3, 4, 5]
    anew = {0: [*PROMPTS[0][:2], 77, 78], 1: PROMPTS[2]}
    session = sampler.session(seeds, params)
    first = dict(session.generate(dict(enumerate(PROMPTS[:3]))))
    session.reset_row(0)
    session.reset_row(1)
    second = dict(session.generate({2: LATER[2], 1: anew[1], 0: anew[0]}))
    third = dict(session.generate({0: LATER[0], 1: LATER[1], 2: LATER[0]}))
    session.reset_row(0)
    fourth = dict(session.generate({0: PROMPTS[0]}))
    for row in (0, 1):
        alone = sampler.session([seeds[row]], params)
        alone.turn[0] = 1  # the draws of a second turn, with nothing read in a first one
        same([dict(alone.generate({0: anew[row]}))[0]], [second[row]])
        same([dict(alone.generate({0: LATER[row]}))[0]], [third[row]])
    alone = sampler.session([seeds[2]], params)
    expected = [dict(alone.generate({0: prompt}))[0] for prompt in (PROMPTS[2], LATER[2], LATER[0])]
    same(expected, [first[2], second[2], third[2]])
    alone = sampler.session([seeds[0]], params)
    alone.turn[0] = 3
    same([dict(alone.generate({0: PROMPTS[0]}))[0]], [fourth[0]])


def test_a_restarted_row_does_not_read_again_what_its_cache_holds(model):
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


def allowed(logits, params):
    """Ids that top-k, top-p and min-p leave, computed the plain way."""
    probabilities = torch.softmax(logits / params.temperature, -1)
    order = probabilities.argsort(descending=True).tolist()
    order = order[: params.top_k or None]
    total, mass, left = sum(float(probabilities[i]) for i in order), 0.0, set()
    for token in order:
        if mass >= params.top_p * total - 1e-6:
            break
        left.add(token)
        mass += float(probabilities[token])
    least = params.min_p * float(probabilities.max()) * (1 - 1e-5)
    return {token for token in left if float(probabilities[token]) >= least}


@pytest.mark.parametrize(
    "top_k, top_p, min_p",
    [
        (1, 1.0, 0.0),
        (5, 1.0, 0.0),
        (0, 0.05, 0.0),
        (0, 0.5, 0.0),
        (20, 0.6, 0.0),
        (0, 1.0, 0.999),
        (0, 1.0, 0.5),
        (20, 0.9, 0.7),
    ],
)
def test_top_k_top_p_and_min_p_hold_and_the_log_probabilities_stay_unfiltered(model, top_k, top_p, min_p):
    params = SamplingParams(temperature=0.8, top_k=top_k, top_p=top_p, min_p=min_p, max_tokens=6)
    read, responses = play(TransformersSampler(model, EOS), range(4), turns=1, params=params)
    for row in range(4):
        ids = read[row][0] + responses[row][0].ids
        logits = model(input_ids=torch.tensor([ids])).logits[0].detach().float()
        for place, token in enumerate(responses[row][0].ids):
            before = logits[len(read[row][0]) + place - 1]
            assert token in allowed(before, params)
            expected = float(torch.log_softmax(before / 0.8, -1)[token])
            assert responses[row][0].logprobs[place] == pytest.approx(expected, abs=1e-4)


def test_tokens_come_up_as_often_as_they_should_and_none_that_is_filtered_out(model):
    session = TransformersSampler(model, EOS).session([0], SamplingParams(top_k=2))
    logits = torch.zeros(3, 8)
    logits[:, 2:4] = 9.0
    uniform = torch.tensor([0.0, 0.5, 1 - 2**-24])
    tokens, _, _ = session._draw(logits, uniform)
    assert set(tokens.tolist()) <= {2, 3}
    mass = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0, 0.0]]).log().expand(20_000, 6)
    drawn, _, _ = session._draw(mass, torch.rand(20_000, generator=torch.Generator().manual_seed(0)))
    assert set(drawn.tolist()) == {2, 3}
    assert (drawn == 3).float().mean().item() == pytest.approx(4 / 7, abs=0.02)


def test_min_p_counts_from_the_likeliest_token(model):
    session = TransformersSampler(model, EOS).session([0], SamplingParams(min_p=0.5))
    mass = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0, 0.0]]).log().expand(20_000, 6)
    drawn, logprobs, _ = session._draw(mass, torch.rand(20_000, generator=torch.Generator().manual_seed(0)))
    assert set(drawn.tolist()) == {1, 2, 3}
    assert (drawn == 3).float().mean().item() == pytest.approx(4 / 9, abs=0.02)
    assert logprobs[drawn == 1][0].exp().item() == pytest.approx(0.2)


def test_every_row_must_be_given_something_to_read(model):
    session = TransformersSampler(model, EOS).session([0], SamplingParams())
    with pytest.raises(ValueError, match="at least one new token"):
        list(session.generate({0: []}))
    assert list(session.generate({})) == []


def test_weights_that_have_diverged_are_named_as_the_cause(pocket_folder):
    model = load(pocket_folder, PolicyConfig()).model
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    session = TransformersSampler(model, EOS).session([0], SamplingParams())
    with pytest.raises(DivergedError, match=r"smaller optimizer\.policy_lr"):
        list(session.generate({0: [1, 2]}))


class Watcher:
    """Watches one row."""

    def __init__(self, row):
        self.row, self.seen = row, []

    def select_rows(self, rows):
        return [row for row in rows if row == self.row]

    def on_tokens(self, row, ids):
        self.seen.append((row, ids))


def test_a_listener_sees_its_row_grow(model):
    watcher = Watcher(2)
    session = Eager(model).session([1, 2, 3], SamplingParams(max_tokens=20), watcher)
    response = dict(session.generate({row: PROMPTS[row] for row in range(3)}))[2]
    assert watcher.seen
    for row, ids in watcher.seen:
        assert row == 2
        assert ids == response.ids[: len(ids)]


def test_a_script_is_played_row_by_row_and_says_when_it_is_too_short(chat):
    script = [[tiny.said(chat, "a"), tiny.said(chat, "b")], [tiny.said(chat, "c")]]
    sampler = ScriptedSampler(script)
    session = sampler.session([0, 0], SamplingParams())
    assert dict(session.generate({0: [1], 1: [2]})) == {0: script[0][0], 1: script[1][0]}
    assert dict(session.generate({0: [3]})) == {0: script[0][1]}
    assert sampler.read == [[[1], [3]], [[2]]]
    with pytest.raises(ValueError, match="dialogue 1 ends after 1 turns"):
        list(session.generate({1: [4]}))
    with pytest.raises(ValueError, match="3 dialogues were asked for, but only 2"):
        sampler.session([0, 0, 0], SamplingParams())
