# SPDX-License-Identifier: Apache-2.0

"""Finds misspelt names of our options and groups in configuration files.

oslo.config ignores a name that no option has.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
import difflib
import glob
import os

from oslo_config import cfg

_PREFIX = 'ext_resources'
#: Of 1: how near to the name of a group of ours another has to be.
_SIMILAR = 0.9


def list_problems(
    conf: cfg.ConfigOpts, known: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Describe each name of ours without an effect, and the nearest right one.

    :param conf: parsed
    :param known: group -> names of its options
    """
    for path in _list_files(conf):
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(path, sections).parse()
        for section, options in sections.items():
            # As oslo.config reads it.
            group = section.lower()
            if group in known:
                for name in sorted(options.keys() - set(known[group])):
                    yield (
                        f'{path}: [{section}] {name} has no effect, because '
                        'there is no such option. '
                        f'{_advise(name, known[group])}.'
                    )
            elif _is_meant(group, known):
                yield (
                    f'{path}: [{section}] has no effect, because no installed '
                    f'plugin has this group. {_advise_group(group, known)}.'
                )


def _list_files(conf: cfg.ConfigOpts) -> Iterator[str]:
    yield from conf.config_file or ()
    for folder in conf.config_dir or ():
        pattern = os.path.join(glob.escape(folder), '*.conf')
        yield from sorted(glob.glob(pattern))


def _is_meant(group: str, known: Iterable[str]) -> bool:
    """Return whether a group is, or resembles, one of ours."""
    return group.startswith(_PREFIX) or bool(
        difflib.get_close_matches(group, known, cutoff=_SIMILAR)
    )


def _advise(name: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1)
    return f'Write {nearest[0]}' if nearest else 'Remove it'


def _advise_group(group: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(group, known, n=1, cutoff=_SIMILAR)
    if nearest:
        return f'Write [{nearest[0]}]'
    return 'Remove it, or install the plugin that reads it'
