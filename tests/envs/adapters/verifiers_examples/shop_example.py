"""An environment of verifiers with tools of its tasks, which share a state with its rewards, and of its taskset."""

from typing import Literal

import verifiers.v1 as vf


class ShopData(vf.TaskData):
    budget: int
    wanted: str


class ShopState(vf.State):
    basket: list[str] = []
    lookups: int = 0


class Shop(vf.Toolset[vf.ToolsetConfig, ShopState]):
    """The shop of a task, with its budget."""

    budget = 0

    async def setup_task(self, task: ShopData) -> None:
        self.budget = task.budget

    @vf.tool
    async def buy(self, item: Literal["lamp", "rug", "sofa"], count: int = 1) -> str:
        """Put something into the basket."""
        self.state.basket += [item] * count
        if len(self.state.basket) > self.budget:
            raise ValueError(f"the budget is {self.budget}")
        return f"{len(self.state.basket)} of {self.budget}"


class Prices(vf.Toolset[vf.SharedToolsetConfig, ShopState]):
    """Prices, which are the same for all tasks."""

    TOOL_PREFIX = None

    async def setup(self) -> None:
        self.prices = {"lamp": 12, "rug": 30}

    @vf.tool(name="price")
    def look_up(self, item: str) -> int:
        """The price of something, in coins."""
        self.state.lookups += 1
        return self.prices[item]


class ShopTask(vf.Task[ShopData, ShopState, vf.TaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Shop(vf.ToolsetConfig())]

    @vf.stop
    async def sofa_bought(self, trace: vf.Trace) -> bool:
        return "sofa" in trace.state.basket

    @vf.reward
    async def bought(self, trace):
        return float(self.data.wanted in trace.state.basket)

    @vf.reward(weight=0.5)
    async def looked_up_first(self, trace):
        names = [call.name for message in trace.messages for call in getattr(message, "tool_calls", None) or []]
        return float(trace.state.lookups > 0 and names[0] == "price")

    @vf.reward(weight=0.25)
    async def closed(self, trace):
        return float(trace.last_reply == "Done.")


class ShopTaskset(vf.Taskset[ShopTask, vf.TasksetConfig]):
    def load(self):
        for wanted in ("lamp", "rug"):
            yield ShopTask(ShopData(prompt=f"Buy a {wanted}.", system_prompt="You shop.", budget=2, wanted=wanted))

    @classmethod
    def toolsets(cls, config):
        return [Prices(vf.SharedToolsetConfig())]


__all__ = ["ShopTaskset"]
