"""Reads the command by which a person starts a program: a known coding agent, with its prompt, or any other program.

A coding agent is started by its driver, which gives it its prompt, its output format and its permissions. So the
prompt and the model are taken out of the command, what only a person at a terminal needs is left out, and what would
contradict the driver is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from agenttalk.rules.agents.cli_table import TABLE


@dataclass(frozen=True, slots=True)
class AgentFlags:
    """The command line of a coding agent: what its arguments mean here. An option has several spellings."""

    prompts: frozenset[str] = frozenset()
    """Options whose value is the prompt."""
    models: frozenset[str] = frozenset({"--model", "-m"})
    """Options whose value is the model."""
    values: frozenset[str] = frozenset()
    """Other options that take a value."""
    dropped: frozenset[str] = frozenset()
    """Options without a value that the driver decides itself."""
    dropped_values: frozenset[str] = frozenset()
    """The same, with a value."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Options that contradict the driver → why."""
    subcommands: frozenset[str] = frozenset()
    """Words before the prompt that say: no dialogue."""
    implied: frozenset[str] = frozenset()
    """Options without a value that say what is so in any case."""
    words: bool = False
    """Whether all words together are the prompt."""
    files: bool = False
    """Whether words are files, and never the prompt."""


_SESSION: Final = "the session of an earlier run is not known here; a round of rework resumes its own"
_PLACE: Final = "it works in a private clone, from the folder where you are"
_TREE: Final = "it works in a private clone already"

FLAGS: Final[Mapping[str, AgentFlags]] = MappingProxyType(
    {
        "claude": AgentFlags(
            models=frozenset({"--model"}),
            values=frozenset(
                {
                    *("--append-system-prompt", "--system-prompt", "--fallback-model", "--max-turns", "--agents"),
                    *("--mcp-config", "--settings", "--setting-sources", "--allowedTools", "--allowed-tools"),
                    *("--disallowedTools", "--disallowed-tools", "--max-budget-usd", "--effort", "--betas", "--agent"),
                    *("--tools", "--plugin-dir", "--append-system-prompt-file", "--system-prompt-file", "--add-dir"),
                }
            ),
            dropped=frozenset(
                {
                    *("--verbose", "--dangerously-skip-permissions", "--include-partial-messages"),
                    *("--allow-dangerously-skip-permissions", "--no-session-persistence"),
                }
            ),
            dropped_values=frozenset({"--output-format", "--permission-mode"}),
            implied=frozenset({"-p", "--print"}),
            refused={
                **dict.fromkeys(("-c", "--continue", "-r", "--resume", "--session-id", "--fork-session"), _SESSION),
                **dict.fromkeys(("-w", "--worktree"), _TREE),
                "--input-format": "it gets its prompt as text",
            },
        ),
        "codex": AgentFlags(
            values=frozenset(
                {"-c", "--config", "-p", "--profile", "-i", "--image", "--output-schema", "--enable", "--disable"}
            ),
            dropped=frozenset(
                {
                    *("--json", "--experimental-json", "--skip-git-repo-check", "--full-auto", "--yolo"),
                    "--dangerously-bypass-approvals-and-sandbox",
                }
            ),
            dropped_values=frozenset({"-s", "--sandbox", "-a", "--ask-for-approval", "--color"}),
            refused={
                **dict.fromkeys(("-C", "--cd"), _PLACE),
                "--ephemeral": "a round of rework resumes its session",
                **dict.fromkeys(("-o", "--output-last-message"), "the engine reads its last message"),
            },
            subcommands=frozenset({"exec", "e"}),
        ),
        "gemini": AgentFlags(
            prompts=frozenset({"-p", "--prompt", "-i", "--prompt-interactive"}),
            values=frozenset(
                {
                    *("--extensions", "-e", "--allowed-mcp-server-names", "--allowed-tools"),
                    *("--include-directories", "--policy"),
                }
            ),
            dropped=frozenset({"-y", "--yolo", "--skip-trust", "-s", "--sandbox", "-d", "--debug"}),
            dropped_values=frozenset({"-o", "--output-format", "--approval-mode"}),
            refused={
                **dict.fromkeys(("-r", "--resume", "--session-id"), _SESSION),
                **dict.fromkeys(("-w", "--worktree"), _TREE),
            },
        ),
        "opencode": AgentFlags(
            values=frozenset({"--agent", "--title", "--variant", "--file", "-f", "--command"}),
            dropped=frozenset({"--print-logs", "--thinking"}),
            dropped_values=frozenset({"--format", "--log-level"}),
            refused={
                **dict.fromkeys(("-c", "--continue", "-s", "--session", "--fork"), _SESSION),
                **dict.fromkeys(("--dir",), _PLACE),
                **dict.fromkeys(("--attach", "--port", "--share"), "it runs on this machine and shares nothing"),
            },
            subcommands=frozenset({"run"}),
            words=True,
        ),
        "qwen": AgentFlags(
            prompts=frozenset({"-p", "--prompt", "-i", "--prompt-interactive"}),
            values=frozenset(
                {
                    *("--extensions", "-e", "--allowed-mcp-server-names", "--allowed-tools", "--include-directories"),
                    *("--openai-api-key", "--openai-base-url", "--auth-type", "--max-session-turns"),
                }
            ),
            dropped=frozenset({"-y", "--yolo", "-s", "--sandbox", "-d", "--debug"}),
            dropped_values=frozenset({"-o", "--output-format", "--approval-mode"}),
            refused=dict.fromkeys(("-c", "--continue", "-r", "--resume", "--session-id"), _SESSION),
        ),
        "aider": AgentFlags(
            prompts=frozenset({"-m", "--message", "--msg"}),
            models=frozenset({"--model"}),
            values=frozenset(
                {
                    *("--edit-format", "--weak-model", "--editor-model", "--read", "--file", "--api-key"),
                    *("--env-file", "--config", "--map-tokens", "--openai-api-base"),
                }
            ),
            dropped=frozenset(
                {
                    *("--yes", "--yes-always", "--no-auto-commits", "--no-pretty", "--no-stream"),
                    *("--no-check-update", "--analytics-disable", "--no-gitignore", "--no-show-release-notes"),
                }
            ),
            dropped_values=frozenset({"--chat-history-file", "--input-history-file"}),
            refused={
                **dict.fromkeys(("-f", "--message-file"), "give the prompt with --message"),
                **dict.fromkeys(("--auto-commits", "--watch-files"), "the engine commits what is proven"),
            },
            files=True,
        ),
    }
)
"""Coding agent → its command line. Each is in the table of coding agents, too."""


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """The command by which a person starts a program."""

    program: str
    agent: str = ""
    """The coding agent that it is; empty for any other program."""
    prompt: str = ""
    model: str = ""
    args: tuple[str, ...] = ()
    """Further arguments. Of another program: all of its arguments."""
    dropped: tuple[str, ...] = ()
    """Arguments that were left out because the driver decides them."""

    @property
    def is_known(self) -> bool:
        """Whether it is a coding agent of the table."""
        return bool(self.agent)

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return (self.program, *self.args)

    def to_argv(self) -> tuple[str, ...]:
        """Write the command as `read_command` reads it."""
        if not self.agent:
            return self.argv
        flags = FLAGS[self.agent]
        model = (max(flags.models, key=len), self.model) if self.model else ()
        prompt = ("--message", self.prompt) if flags.files else ("--", self.prompt)
        return (self.program, *model, *self.args, *(prompt if self.prompt else ()))

    def to_profile(self) -> dict[str, Any]:
        """Return the keys of an agent in a plan file that start it."""
        if not self.agent:
            return {"driver": "script", "argv": list(self.argv)}
        use: dict[str, Any] = {"agent": self.agent}
        use |= {"program": self.program} if self.program != TABLE[self.agent].program else {}
        use |= {"model": self.model} if self.model else {}
        use |= {"args": list(self.args)} if self.args else {}
        return {"driver": "cli", "cli": use}


def find_agent(program: str) -> str:
    """Return the coding agent that a program is, by its name; empty for any other."""
    name = posixpath.basename(program)
    return next((agent for agent in FLAGS if TABLE[agent].program == name), "")


def read_command(argv: Sequence[str]) -> AgentCommand:
    """Read a command. Raises ValueError with what to do when its driver cannot start it so."""
    if not argv or not argv[0]:
        raise ValueError("no command is named; put it after --, such as: -- claude -p 'Fix it'")
    agent = find_agent(argv[0])
    if not agent:
        return AgentCommand(argv[0], args=tuple(argv[1:]))
    return _Reading(agent, argv[0], FLAGS[agent]).read(argv[1:])


class _Reading:
    """The reading of the arguments of a coding agent."""

    def __init__(self, agent: str, program: str, flags: AgentFlags) -> None:
        self._agent = agent
        self._program = program
        self._flags = flags
        self._prompt = ""
        self._model = ""
        self._args: list[str] = []
        self._dropped: list[str] = []
        self._words: list[str] = []
        self._doubtful: list[int] = []
        """Places in `_args` of words after an option that is not known: its value, or the prompt."""

    def read(self, arguments: Sequence[str]) -> AgentCommand:
        left = list(arguments)
        if left and left[0] in self._flags.subcommands:
            left.pop(0)
        while left:
            word = left.pop(0)
            if word == "--":
                self._words += left
                break
            if word.startswith("-") and word != "-":
                self._read_option(word, left)
            else:
                self._words.append(word)
        self._settle_words()
        return AgentCommand(
            self._program, self._agent, self._prompt, self._model, tuple(self._args), tuple(self._dropped)
        )

    def _read_option(self, word: str, left: list[str]) -> None:
        flags = self._flags
        option, equals, value = word.partition("=")
        if option in flags.refused:
            raise ValueError(f"{self._agent} {option}: {flags.refused[option]}; leave it out")
        if option in flags.implied:
            return
        takes = option in flags.prompts | flags.models | flags.values | flags.dropped_values
        if takes and not equals:
            if not left:
                raise ValueError(f"{self._agent} {option} needs a value")
            value = left.pop(0)
        if option in flags.prompts:
            self._prompt = value
        elif option in flags.models:
            self._model = value
        elif option in flags.dropped | flags.dropped_values:
            self._dropped.append(option)
        elif takes:
            self._args += [word] if equals else [word, value]
        else:
            self._args.append(word)
            if not equals and left and not left[0].startswith("-"):
                self._doubtful.append(len(self._args))
                self._args.append(left.pop(0))

    def _settle_words(self) -> None:
        """Decide which words are the prompt."""
        if self._flags.files:
            self._args += self._words
            return
        if self._prompt:
            if self._words:
                raise ValueError(f"{self._agent} has two prompts: {self._prompt[:40]!r} and {self._words[0][:40]!r}")
            return
        if not self._words and len(self._doubtful) == 1:
            self._words = [self._args.pop(self._doubtful[0])]
        if len(self._words) > 1 and not self._flags.words:
            raise ValueError(f"{self._agent} takes one prompt; put it in quotes: '{' '.join(self._words)[:80]}'")
        self._prompt = " ".join(self._words)
