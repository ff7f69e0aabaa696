"""The HTTP API of a fake forge, and git over HTTP."""

from __future__ import annotations

import base64
import binascii
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from agenttalk.testing.bare_repository import GitFailedError, run_http_backend
from agenttalk.testing.gitea_objects import GiteaHook, GiteaRepository, GiteaUser, MovedError, RefusedError
from agenttalk.testing.gitea_serializer import GiteaSerializer
from agenttalk.testing.gitea_state import GiteaState

Handler = Callable[["GiteaApi", Request], Awaitable[Response]]
_HERE = "/api/v1/repos/{owner}/{name}"


class GiteaApi:
    """The state that all handlers share."""

    def __init__(self, state: GiteaState, shapes: Callable[[], GiteaSerializer], page: int) -> None:
        self.state = state
        self._shapes = shapes
        self.page = page
        """The most items of a page, also if a client asks for more."""

    @property
    def shapes(self) -> GiteaSerializer:
        """The serializer of this version."""
        return self._shapes()

    def user(self, request: Request) -> GiteaUser:
        """Return the caller. Raises RefusedError for an unknown one."""
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        found = self.state.user_of_token(value) if kind.lower() in {"token", "bearer"} else self._basic(kind, value)
        if found is None:
            raise RefusedError(401, "token is required")
        return found

    def _basic(self, kind: str, value: str) -> GiteaUser | None:
        if kind.lower() != "basic":
            return None
        try:
            login, _, password = base64.b64decode(value).decode().partition(":")
        except (ValueError, binascii.Error):
            return None
        user = self.state.users.get(login.lower())
        if user is not None and password and password == user.password:
            return user
        return self.state.user_of_token(password) or self.state.user_of_token(login)

    def repository(self, request: Request) -> GiteaRepository:
        """Return the repository that a path names. For accounts that may not see it, it does not exist."""
        found = self.state.repository(request.path_params["owner"], request.path_params["name"])
        if not found.may_read(self.user(request)):
            raise RefusedError(404, "The target couldn't be found.")
        return found

    def respond_page(self, request: Request, items: list[Any]) -> Response:
        """Respond with one page of a list."""
        page = max(1, int(request.query_params.get("page", "1")))
        size = min(self.page, int(request.query_params.get("limit", "30")))
        shown = items[(page - 1) * size : page * size]
        headers = {"X-Total-Count": str(len(items))}
        if page * size < len(items):
            headers["Link"] = f'<{request.url.include_query_params(page=page + 1)}>; rel="next"'
        return JSONResponse(shown, headers=headers)


def make_application(api: GiteaApi) -> Starlette:
    """Build the application with all routes."""
    return Starlette(
        routes=[
            *_routes(api, "/api/v1", _ACCOUNT),
            *_routes(api, _HERE, _REPOSITORY),
            Route("/{owner}/{name}.git/{path:path}", _guarded(api, _git), methods=["GET", "POST"]),
        ]
    )


def _routes(api: GiteaApi, prefix: str, table: dict[tuple[str, str], Handler]) -> list[Route]:
    return [Route(prefix + path, _guarded(api, handler), methods=[method]) for (method, path), handler in table.items()]


def _guarded(api: GiteaApi, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await handler(api, request)
        except MovedError as error:
            old = f"/{request.path_params['owner']}/{request.path_params['name']}"
            return RedirectResponse(str(request.url).replace(old, f"/{error.name}", 1), 307)
        except RefusedError as error:
            headers = {"WWW-Authenticate": 'Basic realm="Gitea"'} if error.status == 401 else None
            body = {"message": error.message, "url": f"{api.shapes.base_url}/api/swagger"}
            return JSONResponse(body, error.status, headers=headers)
        except GitFailedError as error:
            return JSONResponse({"message": str(error), "url": ""}, 422)

    return answer


async def _body(request: Request) -> dict[str, Any]:
    data = await request.json() if await request.body() else {}
    if not isinstance(data, dict):
        raise RefusedError(422, "not an object")
    return data


def _number(request: Request) -> int:
    text: str = request.path_params["number"]
    if not text.isdecimal():
        raise RefusedError(404, "")
    return int(text)


async def _version(api: GiteaApi, _: Request) -> Response:
    return JSONResponse({"version": ".".join(map(str, api.shapes.version)) + ".0"})


async def _me(api: GiteaApi, request: Request) -> Response:
    return JSONResponse(api.shapes.user(api.user(request)))


async def _make_user(api: GiteaApi, request: Request) -> Response:
    if not api.user(request).is_admin:
        raise RefusedError(403, "user should be an admin")
    data = await _body(request)
    if data["username"].lower() in api.state.users:
        raise RefusedError(422, "user already exists")
    return JSONResponse(api.shapes.user(api.state.user(data["username"], password=data["password"])), 201)


async def _make_token(api: GiteaApi, request: Request) -> Response:
    who = api.user(request)
    token = f"{who.id:040x}"[-40:]
    who.tokens.add(token)
    return JSONResponse({"id": who.id, "name": (await _body(request)).get("name"), "sha1": token}, 201)


async def _make_repository(api: GiteaApi, request: Request) -> Response:
    who, data = api.user(request), await _body(request)
    return JSONResponse(api.shapes.repository(api.state.make_repository(who.login, data["name"])), 201)


async def _own_repositories(api: GiteaApi, request: Request) -> Response:
    who = api.user(request)
    known = [(each, each.writers | each.readers) for each in api.state.repositories.values()]
    shown = [each for each, names in known if each.owner is who or who.login in names]
    return api.respond_page(request, [api.shapes.repository(each, who) for each in shown])


async def _show_repository(api: GiteaApi, request: Request) -> Response:
    return JSONResponse(api.shapes.repository(api.repository(request), api.user(request)))


async def _edit_repository(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    if not (who.is_admin or who is repository.owner):
        raise RefusedError(403, "")
    if isinstance(data.get("name"), str) and data["name"] != repository.name:
        api.state.rename_repository(repository, data["name"])
    if isinstance(data.get("private"), bool):
        repository.private = data["private"]
    return JSONResponse(api.shapes.repository(repository, who))


async def _delete_repository(api: GiteaApi, request: Request) -> Response:
    api.state.delete_repository(api.repository(request), api.user(request))
    return Response(status_code=204)


async def _rename_user(api: GiteaApi, request: Request) -> Response:
    if not api.user(request).is_admin:
        raise RefusedError(403, "user should be an admin")
    data = await _body(request)
    api.state.rename_user(api.state.require_user(request.path_params["login"]), str(data["new_username"]))
    return Response(status_code=204)


async def _collaborator(api: GiteaApi, request: Request) -> Response:
    repository, login = api.repository(request), api.state.require_user(request.path_params["login"]).login
    for names in (repository.writers, repository.readers):
        names.discard(login)
    if request.method == "PUT":
        reads = (await _body(request)).get("permission") == "read"
        (repository.readers if reads else repository.writers).add(login)
    return Response(status_code=204)


async def _hook(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    repository, data = api.repository(request), await _body(request)
    config = data.get("config") or {}
    if data.get("type") not in {"gitea", "forgejo"} or not config.get("url") or not config.get("content_type"):
        raise RefusedError(422, "Invalid hook type or missing config")
    hook = GiteaHook(
        id=len(repository.hooks) + 1,
        url=config["url"],
        secret=config.get("secret", ""),
        events=tuple(data.get("events") or ["push"]),
        active=data.get("active") is True,  # which is not so unless one asks for it
        content_type=config["content_type"],
    )
    repository.hooks.append(hook)
    return JSONResponse({"id": hook.id, "active": hook.active, "events": list(hook.events)}, 201)


async def _write_file(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    if not repository.may_write(who):
        raise RefusedError(403, "")
    branch, before = data.get("new_branch") or data.get("branch") or "main", repository.bare.branches()
    content = base64.b64decode(data["content"]).decode()
    files: dict[str, str | None] = {request.path_params["path"]: content}
    message = data.get("message") or "Change"
    sha = repository.bare.commit(branch, files, message, who.login, base=data.get("branch", "main"))
    api.state.pulls.note_push(repository, who, before)
    return JSONResponse({"commit": {"sha": sha}}, 201)


async def _issues(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    repository, state = api.repository(request), request.query_params.get("state", "open")
    found = list(repository.issues.values())
    if request.query_params.get("type") != "issues":
        found += [pull.issue for pull in repository.pulls.values()]
    since = request.query_params.get("since", "")
    shown = [each for each in found if state in {"all", each.state} and each.updated >= since]
    return api.respond_page(request, [api.shapes.issue(repository, each) for each in shown])


async def _make_issue(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    assignees = data.get("assignees") or []
    issue = api.state.issues.create_issue(repository, who, data.get("title") or "", data.get("body") or "", assignees)
    return JSONResponse(api.shapes.issue(repository, issue), 201)


async def _issue(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    repository = api.repository(request)
    return JSONResponse(api.shapes.issue(repository, api.state.issues.issue_of(repository, _number(request))))


async def _edit_issue(api: GiteaApi, request: Request) -> Response:
    who, repository = api.user(request), api.repository(request)
    issue = api.state.issues.edit_issue(repository, who, _number(request), await _body(request))
    return JSONResponse(api.shapes.issue(repository, issue), 201)


async def _comments(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    repository, number = api.repository(request), _number(request)
    return JSONResponse(
        [api.shapes.comment(repository, each) for each in api.state.issues.comments_of(repository, number)]
    )


async def _delete_issue(api: GiteaApi, request: Request) -> Response:
    api.state.issues.delete_issue(api.repository(request), api.user(request), _number(request))
    return Response(status_code=204)


async def _timeline(api: GiteaApi, request: Request) -> Response:
    """List the events that clients need: comments, pushes, assignments, and closing and reopening."""
    repository, number = api.repository(request), _number(request)
    written = [
        {**api.shapes.comment(repository, each), "type": "comment"}
        for each in api.state.issues.comments_of(repository, number)
    ]
    pull = repository.pulls.get(number)
    pushed = [api.shapes.push(each) for each in pull.pushes] if pull else []
    changed = [api.shapes.change(each) for each in api.state.issues.issue_of(repository, number).changes]
    return api.respond_page(request, sorted([*written, *pushed, *changed], key=lambda each: str(each["created_at"])))


async def _assignees(api: GiteaApi, request: Request) -> Response:
    """List the accounts to which issues can be assigned: those that may write."""
    repository = api.repository(request)
    found = [each for each in api.state.users.values() if repository.may_write(each)]
    return JSONResponse([api.shapes.user(each) for each in found])


async def _make_comment(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    comment = api.state.issues.create_comment(repository, who, _number(request), data.get("body") or "")
    return JSONResponse(api.shapes.comment(repository, comment), 201)


async def _edit_comment(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    comment = api.state.issues.edit_comment(repository, who, int(request.path_params["id"]), data.get("body") or "")
    return JSONResponse(api.shapes.comment(repository, comment))


async def _delete_comment(api: GiteaApi, request: Request) -> Response:
    api.state.issues.delete_comment(api.repository(request), api.user(request), int(request.path_params["id"]))
    return Response(status_code=204)


async def _pulls(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    repository, state = api.repository(request), request.query_params.get("state", "open")
    shown = [each for each in repository.pulls.values() if state in {"all", each.issue.state}]
    if request.query_params.get("sort") == "recentupdate":
        shown.sort(key=lambda each: each.issue.updated, reverse=True)
    return api.respond_page(request, [api.shapes.listed_pull(repository, each) for each in shown])


async def _make_pull(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    texts = (data.get("title") or "", data.get("body") or "", data.get("head") or "", data.get("base") or "")
    pull = api.state.pulls.create_pull(repository, who, *texts, data.get("reviewers") or ())
    return JSONResponse(api.shapes.pull(repository, pull), 201)


async def _pull(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    repository, text = api.repository(request), request.path_params["number"]
    if text.endswith(".diff"):
        pull = api.state.pulls.pull_of(repository, int(text.removesuffix(".diff")))
        return PlainTextResponse(repository.bare.diff(pull.base_sha, pull.head_sha))
    return JSONResponse(api.shapes.pull(repository, api.state.pulls.pull_of(repository, _number(request))))


async def _edit_pull(api: GiteaApi, request: Request) -> Response:
    who, repository, number = api.user(request), api.repository(request), _number(request)
    pull, data = api.state.pulls.pull_of(repository, number), await _body(request)
    if isinstance(data.get("base"), str) and data["base"] != pull.base_branch:
        api.state.pulls.retarget(repository, who, number, data["base"])
    api.state.issues.edit_issue(repository, who, number, data)
    return JSONResponse(api.shapes.pull(repository, api.state.pulls.pull_of(repository, number)), 201)


async def _files(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    repository = api.repository(request)
    pull = api.state.pulls.pull_of(repository, _number(request))
    changed = repository.bare.list_changed_paths(pull.base_sha, pull.head_sha)
    return api.respond_page(request, [{"filename": name, "status": "changed"} for name in changed])


async def _merge(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    if data.get("Do") not in {"merge", "rebase", "rebase-merge", "squash", "fast-forward-only"}:
        raise RefusedError(422, "[Do]: Required")
    number, head = _number(request), data.get("head_commit_id") or ""
    if data.get("merge_when_checks_succeed") and api.state.pulls.schedule(repository, who, number, head, data["Do"]):
        return Response(status_code=201)
    api.state.pulls.merge(repository, who, number, head, data["Do"])
    return Response(status_code=200)


async def _reviews(api: GiteaApi, request: Request) -> Response:
    who = api.user(request)
    pull = api.state.pulls.pull_of(api.repository(request), _number(request))
    shown = [each for each in pull.reviews if each.state != "PENDING" or each.author is who]
    asked = [api.shapes.request(user, pull.issue.updated) for user in pull.requested]
    return api.respond_page(request, [*(api.shapes.review(each) for each in shown), *asked])


async def _make_review(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    texts = (data.get("event") or "", data.get("body") or "", data.get("commit_id") or "")
    review = api.state.pulls.review(repository, who, _number(request), *texts, data.get("comments") or ())
    return JSONResponse(api.shapes.review(review))


async def _submit_review(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    texts = (data.get("event") or "", data.get("body") or "")
    review = api.state.pulls.submit_review(repository, who, _number(request), int(request.path_params["id"]), *texts)
    return JSONResponse(api.shapes.review(review))


async def _dismiss(api: GiteaApi, request: Request) -> Response:
    who, repository, review = api.user(request), api.repository(request), int(request.path_params["id"])
    dismissed = not request.url.path.endswith("/undismissals")
    found = api.state.pulls.dismiss(repository, who, _number(request), review, dismissed=dismissed)
    return JSONResponse(api.shapes.review(found))


async def _review_comments(api: GiteaApi, request: Request) -> Response:
    pull = api.state.pulls.pull_of(api.repository(request), _number(request))
    review = api.state.pulls.review_of(pull, int(request.path_params["id"]))
    return JSONResponse([api.shapes.review_comment(review, each) for each in review.comments])


async def _reviewers(api: GiteaApi, request: Request) -> Response:
    who, repository, data = api.user(request), api.repository(request), await _body(request)
    for login in data.get("reviewers") or ():
        api.state.pulls.request_review(repository, who, _number(request), login, remove=request.method == "DELETE")
    return JSONResponse([], 201) if request.method == "POST" else Response(status_code=204)


async def _branch(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    name = request.path_params["branch"]
    sha = api.repository(request).bare.branches().get(name)
    if sha is None:
        raise RefusedError(404, "")
    repository = api.repository(request)
    rules = {"required_approvals": repository.approvals, "enable_status_check": repository.needs_checks}
    return JSONResponse({"name": name, "commit": {"id": sha}, **rules})


async def _statuses(api: GiteaApi, request: Request) -> Response:
    api.user(request)
    repository, ref = api.repository(request), request.path_params["sha"]
    sha = repository.bare.head(ref) or ref
    found = [each for each in repository.statuses if each["sha"] == sha]
    return api.respond_page(request, [api.shapes.status(each) for each in reversed(found)])


async def _make_status(api: GiteaApi, request: Request) -> Response:
    who, repository = api.user(request), api.repository(request)
    kept = api.state.pulls.set_status(repository, who, request.path_params["sha"], await _body(request))
    return JSONResponse(api.shapes.status(kept), 201)


async def _compare(api: GiteaApi, request: Request) -> Response:
    """List the commits between two commits. The files are listed with each commit, and nowhere else."""
    repository = api.repository(request)
    bare = repository.bare
    base, _, head = request.path_params["range"].partition("...")
    base, head = bare.head(base) or base, bare.head(head) or head
    try:
        commits = bare.commits_between(base, head)
    except GitFailedError as error:
        raise RefusedError(404, "The target couldn't be found.") from error
    told = [api.shapes.commit(repository, each) for each in reversed(commits)]
    return JSONResponse({"total_commits": len(commits), "commits": told})


async def _ref(api: GiteaApi, request: Request) -> Response:
    """Return one ref when the name is that of a ref, else all refs whose names begin so."""
    bare, wanted = api.repository(request).bare, f"refs/{request.path_params['ref']}"
    lines = bare.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    found = [line.split() for line in lines if line.startswith(wanted)]
    told = [{"ref": name, "object": {"type": "commit", "sha": sha}} for name, sha in found]
    if not told:
        raise RefusedError(404, "")
    return JSONResponse(told[0] if len(told) == 1 and told[0]["ref"] == wanted else told)


async def _commit(api: GiteaApi, request: Request) -> Response:
    repository = api.repository(request)
    try:
        return JSONResponse(api.shapes.commit(repository, request.path_params["sha"]))
    except GitFailedError as error:
        raise RefusedError(404, "The target couldn't be found.") from error


async def _tree(api: GiteaApi, request: Request) -> Response:
    """List the top of a commit's tree, page by page. The `sha` in the answer is the commit's."""
    sha, query = request.path_params["sha"], request.query_params
    try:
        entries = api.repository(request).bare.entries(sha)
    except GitFailedError as error:
        raise RefusedError(404, "") from error
    page, size = int(query.get("page", "1")), int(query.get("per_page", "1000"))
    shown = entries[(page - 1) * size : page * size]
    tree = [{"path": path, "mode": mode, "type": kind, "sha": made} for mode, kind, made, path in shown]
    more = page * size < len(entries)
    return JSONResponse({"sha": sha, "tree": tree, "truncated": more, "page": page, "total_count": len(entries)})


async def _git(api: GiteaApi, request: Request) -> Response:
    """Clone, fetch and push. Pushing needs the right to write, and moves pull requests."""
    who = api.user(request)
    repository, path = api.repository(request), request.path_params["path"]
    writes = "git-receive-pack" in path or request.query_params.get("service") == "git-receive-pack"
    if writes and not repository.may_write(who):
        raise RefusedError(403, "")
    body = await request.body()
    if request.headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    before = repository.bare.branches()
    where = repository.bare.path.relative_to(api.state.folder)
    environment = {
        "PATH_INFO": f"/{where}/{path}",
        "QUERY_STRING": request.url.query,
        "REQUEST_METHOD": request.method,
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "REMOTE_USER": who.login,
    }
    status, headers, content = await run_http_backend(api.state.folder, environment, body)
    api.state.pulls.note_push(repository, who, before)
    return Response(content, status, headers=headers)


_ACCOUNT: dict[tuple[str, str], Handler] = {
    ("GET", "/version"): _version,
    ("GET", "/user"): _me,
    ("POST", "/admin/users"): _make_user,
    ("POST", "/admin/users/{login}/rename"): _rename_user,
    ("POST", "/users/{login}/tokens"): _make_token,
    ("POST", "/user/repos"): _make_repository,
    ("GET", "/user/repos"): _own_repositories,
}
_REPOSITORY: dict[tuple[str, str], Handler] = {
    ("GET", ""): _show_repository,
    ("PATCH", ""): _edit_repository,
    ("DELETE", ""): _delete_repository,
    ("PUT", "/collaborators/{login}"): _collaborator,
    ("DELETE", "/collaborators/{login}"): _collaborator,
    ("POST", "/hooks"): _hook,
    ("POST", "/contents/{path:path}"): _write_file,
    ("GET", "/issues"): _issues,
    ("POST", "/issues"): _make_issue,
    ("PATCH", "/issues/comments/{id}"): _edit_comment,
    ("DELETE", "/issues/comments/{id}"): _delete_comment,
    ("GET", "/issues/{number}"): _issue,
    ("PATCH", "/issues/{number}"): _edit_issue,
    ("DELETE", "/issues/{number}"): _delete_issue,
    ("GET", "/issues/{number}/timeline"): _timeline,
    ("GET", "/issues/{number}/comments"): _comments,
    ("POST", "/issues/{number}/comments"): _make_comment,
    ("GET", "/pulls"): _pulls,
    ("POST", "/pulls"): _make_pull,
    ("GET", "/pulls/{number}"): _pull,
    ("PATCH", "/pulls/{number}"): _edit_pull,
    ("GET", "/pulls/{number}/files"): _files,
    ("POST", "/pulls/{number}/merge"): _merge,
    ("GET", "/pulls/{number}/reviews"): _reviews,
    ("POST", "/pulls/{number}/reviews"): _make_review,
    ("POST", "/pulls/{number}/reviews/{id}"): _submit_review,
    ("POST", "/pulls/{number}/reviews/{id}/dismissals"): _dismiss,
    ("POST", "/pulls/{number}/reviews/{id}/undismissals"): _dismiss,
    ("GET", "/pulls/{number}/reviews/{id}/comments"): _review_comments,
    ("POST", "/pulls/{number}/requested_reviewers"): _reviewers,
    ("DELETE", "/pulls/{number}/requested_reviewers"): _reviewers,
    ("GET", "/assignees"): _assignees,
    ("GET", "/branches/{branch:path}"): _branch,
    ("GET", "/commits/{sha}/statuses"): _statuses,
    ("POST", "/statuses/{sha}"): _make_status,
    ("GET", "/compare/{range:path}"): _compare,
    ("GET", "/git/refs/{ref:path}"): _ref,
    ("GET", "/git/commits/{sha}"): _commit,
    ("GET", "/git/trees/{sha}"): _tree,
}
