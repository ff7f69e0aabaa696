"""What `agenttalk init` says about the files of a repository, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template, make_table

TOKEN_OF: Final = Template("setup.token_of", "token of {agent}", "{agent} 的令牌")
PURPOSES: Final = make_table(
    "setup_purpose",
    {
        "plan": ("a plan for this repository", "本仓库的计划"),
        "plan_with_check": (
            "a plan for this repository, which 'agenttalk run' carries out; its check: {check}",
            "本仓库的计划，由 'agenttalk run' 执行；其检查：{check}",
        ),
        "plan_without_check": (
            "a plan for this repository, which 'agenttalk run' carries out; no check was found: a person is asked",
            "本仓库的计划，由 'agenttalk run' 执行；没有找到检查：由人决定",
        ),
        "ignore": ("keeps the root out of git", "使根目录不进入 git"),
        "settings": (
            "the settings of the root, where the engine keeps its state",
            "根目录的设置；引擎在根目录中保存状态",
        ),
        "profile": ("{tool} as an agent that takes its work over MCP", "{tool}，通过 MCP 领取工作的智能体"),
        "guide": (
            "tells coding agents that are opened here about AgentTalk",
            "告诉在这里打开的编程智能体如何使用 AgentTalk",
        ),
        "server": ("AgentTalk's MCP tools for {tool}", "供 {tool} 使用的 AgentTalk 的 MCP 工具"),
        "claude": ("has Claude Code read AGENTS.md", "让 Claude Code 读取 AGENTS.md"),
        "skill": ("the skill {name}", "技能 {name}"),
    },
)
"""What an addition is for."""
OBSTACLES: Final = make_table(
    "setup_obstacle",
    {
        "no_repository": (
            "{why}; {hint}; then run 'agenttalk init' again",
            "{why}；{hint}；然后再次运行 'agenttalk init'",
        ),
        "top": ("it belongs to the top of the repository, {path}", "它应位于仓库的顶层 {path}"),
        "not_text": ("it is not UTF-8", "它不是 UTF-8"),
        "other_skill": (
            "it differs from ours; 'agenttalk skill install {name}' replaces it",
            "它与我们的不同；'agenttalk skill install {name}' 会替换它",
        ),
        "not_json": ("it is not plain JSON: {error}", "它不是普通的 JSON：{error}"),
        "not_object": ("it is not a JSON object", "它不是 JSON 对象"),
        "no_object_in_it": ("{key!r} is not an object in it", "其中的 {key!r} 不是对象"),
        "layout": ("rewriting it would change its layout", "重写会改变它的排版"),
        "not_toml": ("it is not TOML: {error}", "它不是 TOML：{error}"),
        "no_table": ("{key!r} cannot be added to it", "无法向其中添加 {key!r}"),
        "no_end": ("a table cannot be added at its end", "无法在它的末尾添加表"),
        "other_values": (
            "a table at its end would change its other values",
            "末尾的表会改变它的其他值",
        ),
        "entry_changed": ("its entry {key!r} was changed", "其中的条目 {key!r} 已被改动"),
        "piece_changed": ("what was added to it was changed", "添加的内容已被改动"),
        "piece_twice": ("it has the addition twice", "添加的内容出现了两次"),
        "changed": ("it was changed", "它已被改动"),
        "revoked": ("revoked", "已撤销"),
        "shared": ("{folder} uses it, too", "{folder} 也在使用它"),
        "running": ("an engine runs on it: end that, and repeat this", "有引擎在其上运行：请先结束引擎，再重复此命令"),
        "holds_more": (
            "it holds more than init made, such as {path}; if you need none of that, remove the folder yourself",
            "其中有 init 未创建的内容，例如 {path}；如果都不需要，请自行删除该目录",
        ),
        "file_changed": ("{file} in it was changed", "其中的 {file} 已被改动"),
        "other_tokens": ("it knows other tokens, such as that of {name}", "它还有其他令牌，例如 {name} 的令牌"),
    },
)
"""Why a file stays as it is, or what became of it."""
