"""A conversation: the environment answers each guess, and rewards few of them."""

import random

import verifiers.v1 as vf


class GuessData(vf.TaskData):
    target: int


class GuessTask(vf.Task[GuessData, vf.State, vf.TaskConfig]):
    @vf.stop
    async def rude(self, trace: vf.Trace) -> bool:
        return trace.last_reply == "No!"

    @vf.reward(weight=0.25)
    async def polite(self, trace):
        return float(trace.stop_condition != "rude")


class GuessTaskset(vf.Taskset[GuessTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        number = 0
        while True:
            yield GuessTask(GuessData(prompt="Guess a number below 10.", target=number % 10))
            number += 1


class GuessConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(max_turns=6)
    praise: str = "Right."


class GuessEnv(vf.Env[GuessConfig]):
    async def run(self, task, agents):
        reward = 0.0
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                guess = segment.last_reply
                if guess == str(task.data.target):
                    reward = 0.75
                    break
                hint = random.choice(["Try again", "Once more"])
                segment = await interaction.turn([{"role": "user", "content": f"{guess}? {hint}."}])
        interaction.trace.record_reward("found", reward, 1.0)


__all__ = ["GuessEnv", "GuessTaskset"]
