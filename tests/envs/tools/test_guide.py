"""The examples of docs/tools.md run."""

import re
from pathlib import Path

from envs.support.rng import SeededRng, Stream

PAGE = (Path(__file__).parents[3] / "docs" / "tools.md").read_text(encoding="utf-8")


def test_an_environment_of_ones_own_takes_tools_and_questions():
    names = {}
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/tools.md", "exec"), names)
    env = names["Capitals"]()
    env.reset(seed=1)
    task = env.draw(SeededRng(1, Stream.START))
    assert env.render() == task.question
    assert env.step("capital(Atlantis)")[0] == "Error: there is no 'Atlantis' in the list"
    assert env.step(env.hint().actions[0])[0] == task.answer
    assert env.step(task.answer)[1] == 1.0
