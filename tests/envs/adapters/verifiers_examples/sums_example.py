"""A single-turn environment of verifiers: sums, with an argument of the taskset and one of the tasks."""

import verifiers.v1 as vf


class SumsTaskConfig(vf.TaskConfig):
    tolerance: int = 0


class SumsConfig(vf.TasksetConfig):
    count: int = 5
    task: SumsTaskConfig = SumsTaskConfig()


class SumsData(vf.TaskData):
    answer: int


class SumsTask(vf.Task[SumsData, vf.State, SumsTaskConfig]):
    @vf.reward
    async def near(self, trace):
        return float(abs(int(trace.last_reply) - self.data.answer) <= self.config.tolerance)

    @vf.reward(weight=0.5)
    async def short(self, trace):
        return float(len(trace.last_reply) < 4)


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self):
        for number in range(self.config.count):
            data = SumsData(prompt=f"What is {number} + 7?", system_prompt="Reply with a number.", answer=number + 7)
            yield SumsTask(data, self.config.task)


__all__ = ["SumsTaskset"]
