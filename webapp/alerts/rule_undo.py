"""How deleted alert rules come back, and the rules of a member who does (webapp/teams/removals.py)."""

from __future__ import annotations

from typing import Any

from webapp.alerts.actions import former_member_reason
from webapp.alerts.models import Rule
from webapp.teams import removals
from webapp.teams.access import may_write
from webapp.teams.models import Removal, Team, User
from webapp.teams.team_undo import member_restored


def restore_rule(removal: Removal) -> None:
    """Put the rule back with its delivery log. Events since its deletion are delivered. Raises UndoRefused."""
    removals.do_put_back((removal.data or {})["rows"])


def may_restore_rule(user: User, removal: Removal) -> bool:
    """Whether the user deleted it or is an admin of its team, and may still write there."""
    writer = removal.team_id is not None and may_write(user, removal.team_id)
    return writer and removals.by_remover_or_admin(user, removal)


def switch_rules_on(sender: object, team: Team, user: User, **kwargs: Any) -> None:
    """Switch the rules on that were switched off because their author left the team, and only because of that."""
    reason = former_member_reason(user.get_username())
    off = Rule.objects.filter(team=team, author=user, enabled=False, disabled_reason=reason)
    off.update(enabled=True, disabled_reason="")


def register_undos() -> None:
    """Register the kind of this room, and what a member's return means for it."""
    undo = removals.Undo(restore_rule, may_restore_rule, "Create a new rule.")
    removals.register(Removal.Kind.RULE, undo)
    member_restored.connect(switch_rules_on, dispatch_uid="alert rules of a member who comes back")
