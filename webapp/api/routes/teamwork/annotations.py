"""Endpoints of annotations: stars, tags and comments on trajectories. They belong to the run's team."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Path, Router, Schema, Status
from pydantic import Field

from webapp.annotations import actions
from webapp.annotations.access import readable_comments, require_may_change
from webapp.annotations.models import MAX_COMMENT_LENGTH, MAX_TAG_LENGTH, Comment, Star, Tagging
from webapp.api.auth import Caller, caller
from webapp.api.errors import Problem, refused
from webapp.api.schemas.shared_schemas import Slug, StrictSchema, TrajectorySlug, Whole
from webapp.teams.access import require_writer, role_in
from webapp.trajectories.models import Trajectory

router = Router(tags=["annotations"])
CommentSlug = Annotated[Slug, Path(description="The comment's public id, from the list of annotations.")]
TagName = Annotated[
    str, Path(min_length=1, max_length=4 * MAX_TAG_LENGTH, pattern=r"^[^\x00/]+$", description="Case does not matter.")
]
CommentText = Annotated[str, Field(min_length=1, max_length=MAX_COMMENT_LENGTH, pattern=r"^[^\x00]*\S[^\x00]*$")]


class CommentOut(Schema):
    """A comment on a trajectory, or on one of its turns."""

    slug: str
    url: str
    trajectory: str = Field(description="Slug.")
    author: str | None
    turn: int | None = Field(description="0-based; null: the whole trajectory.")
    text: str = Field(description="Plain text; @name mentions a member of the team.")
    mentions: list[str] = Field(description="Usernames of the members that it mentions.")
    created_at: datetime
    edited_at: datetime | None


class AnnotationsOut(Schema):
    """A team's annotations of a trajectory."""

    trajectory: str = Field(description="Slug.")
    starred: bool = Field(description="Whether the caller has starred it.")
    stars: list[str] = Field(description="Usernames of those who starred it, the first one first.")
    tags: list[str]
    comments: list[CommentOut] = Field(description="Oldest first.")


class NewComment(StrictSchema):
    """A comment to make."""

    text: CommentText
    turn: Whole | None = Field(default=None, strict=True, description="0-based; omitted: the whole trajectory.")


class CommentPatch(StrictSchema):
    """The new text of a comment."""

    text: CommentText


@router.get(
    "/trajectories/{slug}/annotations",
    response={200: AnnotationsOut} | refused(),
    operation_id="get_annotations",
    summary="Read a trajectory's annotations",
)
def get_annotations(request: HttpRequest, slug: TrajectorySlug) -> AnnotationsOut:
    """Stars, tags and comments. Only for members of the run's team."""
    return _annotations(request, _of_team(caller(request), slug))


@router.put(
    "/trajectories/{slug}/star",
    response={200: AnnotationsOut} | refused(),
    operation_id="star_trajectory",
    summary="Star a trajectory",
)
def star_trajectory(request: HttpRequest, slug: TrajectorySlug) -> AnnotationsOut:
    """Idempotent. The star is the caller's own."""
    trajectory = _to_change(caller(request), slug)
    actions.do_star(trajectory, caller(request).user)
    return _annotations(request, trajectory)


@router.delete(
    "/trajectories/{slug}/star",
    response={200: AnnotationsOut} | refused(),
    operation_id="unstar_trajectory",
    summary="Remove the caller's star",
)
def unstar_trajectory(request: HttpRequest, slug: TrajectorySlug) -> AnnotationsOut:
    """Idempotent."""
    trajectory = _to_change(caller(request), slug)
    actions.do_unstar(trajectory, caller(request).user)
    return _annotations(request, trajectory)


@router.put(
    "/trajectories/{slug}/tags/{tag}",
    response={200: AnnotationsOut} | refused(),
    operation_id="tag_trajectory",
    summary="Tag a trajectory",
)
def tag_trajectory(request: HttpRequest, slug: TrajectorySlug, tag: TagName) -> AnnotationsOut:
    """Idempotent. The tag is stored in lower case, with single spaces."""
    trajectory = _to_change(caller(request), slug)
    actions.do_tag(trajectory, caller(request).user, tag)
    return _annotations(request, trajectory)


@router.delete(
    "/trajectories/{slug}/tags/{tag}",
    response={200: AnnotationsOut} | refused(),
    operation_id="untag_trajectory",
    summary="Remove a tag",
)
def untag_trajectory(request: HttpRequest, slug: TrajectorySlug, tag: TagName) -> AnnotationsOut:
    """Idempotent; any writer may remove a tag of another member."""
    trajectory = _to_change(caller(request), slug)
    actions.do_untag(trajectory, tag)
    return _annotations(request, trajectory)


@router.post(
    "/trajectories/{slug}/comments",
    response={201: CommentOut} | refused(),
    operation_id="create_comment",
    summary="Comment on a trajectory",
)
def create_comment(request: HttpRequest, slug: TrajectorySlug, payload: NewComment) -> Status[CommentOut]:
    """As on the site, viewers may comment, too. Members mentioned by @name are notified."""
    requester = caller(request)
    comment = actions.do_comment(_of_team(requester, slug), requester.user, payload.text, payload.turn)
    return Status(201, _comment(request, comment))


@router.patch(
    "/comments/{slug}",
    response={200: CommentOut} | refused(),
    operation_id="update_comment",
    summary="Change a comment",
)
def update_comment(request: HttpRequest, slug: CommentSlug, payload: CommentPatch) -> CommentOut:
    """Only its author and admins of the team may."""
    comment = _comment_to_change(caller(request), slug)
    return _comment(request, actions.do_edit_comment(comment, payload.text))


@router.delete(
    "/comments/{slug}", response={204: None} | refused(), operation_id="delete_comment", summary="Delete a comment"
)
def delete_comment(request: HttpRequest, slug: CommentSlug) -> Status[None]:
    """Only its author and admins of the team may."""
    requester = caller(request)
    actions.do_delete_comment(_comment_to_change(requester, slug), requester.user)
    return Status(204, None)


def _of_team(requester: Caller, slug: str) -> Trajectory:
    """Return the trajectory, for members of its team. Raises Problem 404 for others, even if its run is public."""
    trajectory = requester.trajectory(slug)
    if role_in(requester.user, trajectory.run.team_id) is None:
        raise Problem(404, "Only members of the run's team may read its annotations, and you are not one.")
    return trajectory


def _to_change(requester: Caller, slug: str) -> Trajectory:
    """Return the trajectory, for users who may write in its team. Raises Problem 404 or PermissionDenied."""
    trajectory = _of_team(requester, slug)
    require_writer(requester.user, trajectory.run.team_id)
    return trajectory


def _comment_to_change(requester: Caller, slug: str) -> Comment:
    """Return the comment, for users who may change it. Raises Problem 404 for users who may not read it, else 403."""
    comment = requester.find(readable_comments(requester.user), slug, "comment", "trajectory__run__team")
    require_may_change(requester.user, comment)
    return comment


def _annotations(request: HttpRequest, trajectory: Trajectory) -> AnnotationsOut:
    stars = [star.user.username for star in Star.objects.filter(trajectory=trajectory).select_related("user")]
    taggings = Tagging.objects.filter(trajectory=trajectory).order_by("tag__name")
    comments = trajectory.comments.select_related("author").prefetch_related("mentions__user")
    return AnnotationsOut(
        trajectory=trajectory.slug,
        starred=caller(request).user.username in stars,
        stars=stars,
        tags=list(taggings.values_list("tag__name", flat=True)),
        comments=[_comment(request, comment) for comment in comments],
    )


def _comment(request: HttpRequest, comment: Comment) -> CommentOut:
    return CommentOut(
        slug=comment.slug,
        url=request.build_absolute_uri(comment.address),
        trajectory=comment.trajectory.slug,
        author=comment.author.username if comment.author else None,
        turn=comment.turn,
        text=comment.text,
        mentions=sorted(mention.user.username for mention in comment.mentions.all()),
        created_at=comment.created_at,
        edited_at=comment.edited_at,
    )
