"""Docstrings as Markdown: roles such as ``:func:`plan``` become links, and examples without a heading become blocks."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(?P<short>~?)(?P<target>[\w.]+)`")
_SECTION = re.compile(r"^Examples\n-+$", re.MULTILINE)  # what follows it is read as examples anyway
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Markdown(griffe.Extension):
    """Rewrite the docstring of every module, class, function and attribute."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one."""
        if obj.docstring is None:
            return
        text = _ROLE.sub(lambda role: _link(obj, role), obj.docstring.value)
        section = _SECTION.search(text)
        end = section.start() if section else len(text)
        obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", text[:end]) + text[end:]


def _link(obj: griffe.Object, role: re.Match[str]) -> str:
    """Return a link; one whose target is not in the reference is shown as code."""
    target = role["target"]
    name = target.rpartition(".")[2] if role["short"] else target
    try:
        path = target if target.startswith("replicable_rl.") else obj.resolve(target)
    except griffe.NameResolutionError:
        path = f"{obj.path}.{target}"
    return f'<autoref optional identifier="{path}"><code>{name}</code></autoref>'
