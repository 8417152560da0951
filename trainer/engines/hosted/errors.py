"""Why a hosted model is not asked on. Raising and catching is done elsewhere."""


class HostedError(RuntimeError):
    """The endpoint did not answer, however often it was asked. The message says what happened."""


class RefusedError(ValueError):
    """The endpoint refuses what is asked of it, now and always. The message says what to change."""


class BudgetSpentError(RuntimeError):
    """`hosted.max_cost` leaves no room for another request. The message says what was spent."""
