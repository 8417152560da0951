"""Precision and recall on the labelled sentences."""

import pytest

from bench.claims import precision

MIN_PRECISION = 0.98
MIN_RECALL = 0.9
MIN_THOUGHT_PRECISION = 0.96
MIN_THOUGHT_RECALL = 0.6
SCORES = {environment: precision.measure(environment) for environment in precision.ENVIRONMENTS}


@pytest.mark.parametrize("environment", precision.ENVIRONMENTS)
def test_claims_that_are_read_are_right(environment):
    score = SCORES[environment]
    assert score.precision >= MIN_PRECISION, "\n".join(score.errors)


@pytest.mark.parametrize("environment", precision.ENVIRONMENTS)
def test_few_claims_are_missed(environment):
    score = SCORES[environment]
    assert score.recall >= MIN_RECALL, "\n".join(score.errors)


def test_claims_in_thoughts_of_language_models_are_right():
    thoughts = precision.read_thoughts()
    scores = [precision.measure(environment, labelled) for environment, labelled in thoughts.items()]
    assert sum(map(len, thoughts.values())) >= 200
    for score in scores:
        assert score.precision >= MIN_THOUGHT_PRECISION, "\n".join(score.errors)
    recall = sum(score.right for score in scores) / sum(score.labelled for score in scores)
    assert recall >= MIN_THOUGHT_RECALL, "\n".join(error for score in scores for error in score.errors)


@pytest.mark.parametrize("environment", precision.ENVIRONMENTS)
def test_every_environment_has_true_false_and_silent_sentences(environment):
    sentences = precision.read_sentences(environment)
    assert len(sentences) >= 40
    assert {true for sentence in sentences for _, _, true in sentence.labels} == {True, False}
    assert sum(not sentence.labels for sentence in sentences) >= 8


def test_the_benchmark_counts_wrong_and_missed_claims(monkeypatch, tmp_path):
    (tmp_path / "boards.json").write_text('{"task": {"kind": "text", "text": "Target  24\\nNumbers 3 8"}}')
    (tmp_path / "countdown.jsonl").write_text(
        '{"board": "task", "text": "3 * 8 = 24"}\n'
        '{"board": "task", "text": "The target is 24 and so on", "true": ["The target is 24", "and so on"]}\n'
    )
    monkeypatch.setattr(precision, "FOLDER", tmp_path)
    score = precision.measure("Countdown")
    assert (score.right, score.wrong, score.missed) == (1, 1, 1)
    assert (score.precision, score.recall) == (0.5, 0.5)


def test_a_label_that_is_not_in_its_text_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "boards.json").write_text('{"task": {"kind": "text", "text": "Target  24\\nNumbers 3 8"}}')
    (tmp_path / "countdown.jsonl").write_text('{"board": "task", "text": "3 * 8", "true": ["3 * 9"]}\n')
    monkeypatch.setattr(precision, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="is not in its text"):
        precision.measure("Countdown")
