"""Environments of verifiers that mostly cannot be played as text; modules of their own export one each."""

import verifiers.v1 as vf


class PlainTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def always(self, trace):
        return 1.0


class JudgedConfig(vf.TaskConfig):
    examiner: vf.JudgeConfig = vf.JudgeConfig()


class JudgedTask(vf.Task[vf.TaskData, vf.State, JudgedConfig]):
    pass


class JudgedTasksetConfig(vf.TasksetConfig):
    task: JudgedConfig = JudgedConfig()


class JudgedTaskset(vf.Taskset[JudgedTask, JudgedTasksetConfig]):
    def load(self):
        yield JudgedTask(vf.TaskData(prompt="Write a poem."), self.config.task)


class Clock(vf.Toolset):
    @vf.tool
    async def now(self) -> str:
        """The time."""
        return "noon"


class RemoteTask(PlainTask):
    @classmethod
    def toolsets(cls, config):
        return [Clock(vf.ToolsetConfig(url="http://localhost:1/mcp"))]


class RemoteTaskset(vf.Taskset[RemoteTask, vf.TasksetConfig]):
    def load(self):
        yield RemoteTask(vf.TaskData(prompt="What time is it?"))


class BesideTask(PlainTask):
    @classmethod
    def toolsets(cls, config):
        return [Clock(vf.ToolsetConfig(colocated=True))]


class BesideTaskset(vf.Taskset[BesideTask, vf.TasksetConfig]):
    def load(self):
        yield BesideTask(vf.TaskData(prompt="What time is it?"))


class BoxedToolsTaskset(vf.Taskset[PlainTask, vf.TasksetConfig]):
    def load(self):
        yield PlainTask(vf.TaskData(prompt="What time is it?"))

    @classmethod
    def toolsets(cls, config):
        return [Clock(vf.SharedToolsetConfig(runtime=vf.DockerConfig()))]


class TwoClocksTaskset(vf.Taskset[PlainTask, vf.TasksetConfig]):
    def load(self):
        yield PlainTask(vf.TaskData(prompt="What time is it?"))

    @classmethod
    def toolsets(cls, config):
        return [Clock(vf.SharedToolsetConfig()), Clock(vf.SharedToolsetConfig())]


class Camera(vf.Toolset):
    @vf.tool
    async def look(self):
        """A picture."""
        from mcp.server.mcpserver import Image

        return Image(data=b"GIF89a", format="gif")


class CameraTaskset(vf.Taskset[PlainTask, vf.TasksetConfig]):
    def load(self):
        yield PlainTask(vf.TaskData(prompt="What is there?"))

    @classmethod
    def toolsets(cls, config):
        return [Camera(vf.SharedToolsetConfig())]


class ToolJudgedTask(JudgedTask):
    @classmethod
    def toolsets(cls, config):
        return [Clock(vf.ToolsetConfig())]


class ToolJudgedTaskset(vf.Taskset[ToolJudgedTask, JudgedTasksetConfig]):
    def load(self):
        yield ToolJudgedTask(vf.TaskData(prompt="Write a poem."), self.config.task)


class BoxTask(PlainTask):
    NEEDS_CONTAINER = True


class BoxTaskset(vf.Taskset[BoxTask, vf.TasksetConfig]):
    def load(self):
        yield BoxTask(vf.TaskData(prompt="Repair the program."))


class PairTaskset(vf.Taskset[PlainTask, vf.TasksetConfig]):
    def load(self):
        yield PlainTask(vf.TaskData(prompt="Negotiate."))


class PairConfig(vf.EnvConfig):
    buyer: vf.AgentConfig = vf.AgentConfig()
    seller: vf.AgentConfig = vf.AgentConfig()


class PairEnv(vf.Env[PairConfig]):
    async def run(self, task, agents):
        await agents.buyer.run(task)


class PictureTaskset(vf.Taskset[PlainTask, vf.TasksetConfig]):
    def load(self):
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        yield PlainTask(vf.TaskData(prompt=[{"role": "user", "content": [picture]}]))


class SilentTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    pass


class SilentTaskset(vf.Taskset[SilentTask, vf.TasksetConfig]):
    def load(self):
        yield SilentTask(vf.TaskData(prompt="Say anything."))


class EmptyTaskset(vf.Taskset[PlainTask, vf.TasksetConfig]):
    def load(self):
        return []


class AwayTaskset(vf.Taskset[PlainTask, vf.TasksetConfig]):
    def load(self):
        raise ConnectionError("the hub cannot be reached")


class TwiceEnv(vf.SingleAgentEnv):
    async def run(self, task, agents):
        await agents.agent.run(task)
        await agents.agent.run(task)


class RuntimeTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    async def setup(self, trace, runtime):
        await runtime.write("note.txt", b"from the machine")

    @vf.reward
    async def noted(self, trace, runtime):
        return float((await runtime.read("note.txt")).decode() == trace.last_reply)


class RuntimeTaskset(vf.Taskset[RuntimeTask, vf.TasksetConfig]):
    def load(self):
        yield RuntimeTask(vf.TaskData(prompt="What does the note say?"))
