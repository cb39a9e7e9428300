# SPDX-License-Identifier: Apache-2.0

"""What the demo prints: acts, steps with their time, tables and trees.

Colour and movement on a terminal, plain text anywhere else.
"""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import dataclasses
import time

from rich import box
from rich import console as rich_console
from rich import padding
from rich import rule
from rich import table as rich_table
from rich import text as rich_text
from rich import tree as rich_tree


@dataclasses.dataclass(slots=True)
class Step:
    """A step that is being done; ``result`` ends up behind its line."""

    result: str = ''


class Stage:
    """Prints the story as it happens.

    :ivar console: where it prints
    """

    def __init__(self, console: rich_console.Console | None = None) -> None:
        self.console = console or rich_console.Console(highlight=False)
        self._started = time.monotonic()
        self._acts = 0

    @property
    def seconds(self) -> float:
        """Seconds since the curtain went up."""
        return time.monotonic() - self._started

    def act(self, title: str, *lines: str) -> None:
        """Begin an act: a numbered heading and what it is about."""
        self._acts += 1
        self.console.print()
        self.console.print(
            rule.Rule(
                rich_text.Text(f'{self._acts}. {title}', style='bold cyan'),
                align='left',
            )
        )
        for line in lines:
            self.note(line)

    def note(self, line: str) -> None:
        """Print a sentence of explanation."""
        self.console.print(rich_text.Text(line, style='dim'))

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[Step]:
        """Do one step: a spinner while it lasts, then a line with its time.

        When it raises, the line is marked as failed, unless somebody
        interrupted it; the reason is printed by whoever catches the error.
        """
        begun = time.monotonic()
        step = Step()
        try:
            with self.console.status(rich_text.Text(what)):
                yield step
        except KeyboardInterrupt:
            self._line('--', 'yellow', what, 'not finished', begun)
            raise
        except BaseException:
            self._line('FAIL', 'bold red', what, '', begun)
            raise
        self._line('ok', 'green', what, step.result, begun)

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
    ) -> None:
        """Print a table; cells are printed as they are."""
        made = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            made.add_column(column, overflow='fold')
        for row in rows:
            made.add_row(*(rich_text.Text(str(cell)) for cell in row))
        # Not the table's own title, which wraps at the table's width.
        self.console.print()
        self.console.print(rich_text.Text(title, style='bold'))
        self.console.print(made)

    def listing(self, title: str, lines: Iterable[str]) -> None:
        """Print sentences that belong together, one below the other."""
        self.console.print()
        self.console.print(rich_text.Text(title, style='bold'))
        for line in lines:
            self.console.print(
                padding.Padding(rich_text.Text(f'* {line}'), (0, 0, 0, 2))
            )
        self.console.print()

    def figure(self, title: str, lines: Iterable[str]) -> None:
        """Print lines that belong below each other, as they are."""
        self.console.print()
        self.console.print(rich_text.Text(title, style='bold'))
        for line in lines:
            self.plain(line)
        self.console.print()

    def tree(self, tree: rich_tree.Tree) -> None:
        """Print a tree."""
        self.console.print(tree)

    def failure(self, reason: str) -> None:
        """Print why the story ended early."""
        self.console.print(rich_text.Text(reason, style='bold red'))

    def plain(self, line: str) -> None:
        """Print a line that is meant to be copied: never wrapped."""
        self.console.print(rich_text.Text(line), soft_wrap=True)

    def _line(
        self, mark: str, style: str, what: str, result: str, begun: float
    ) -> None:
        line = rich_text.Text.assemble(
            (f'{mark:>4} ', style),
            what,
            (f': {result}' if result else ''),
            (f'  {time.monotonic() - begun:.1f} s', 'dim'),
        )
        self.console.print(line)
