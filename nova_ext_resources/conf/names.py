# SPDX-License-Identifier: Apache-2.0

"""Finds our options and groups that are misspelt, or in a wrong place.

oslo.config ignores a name that no option of the group has.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
import difflib
import glob
import os

from oslo_config import cfg

#: How names of our groups begin, and one of them. No option of Nova has the
#: name of an option of this one.
_PREFIX = 'ext_resources'

#: Sections of Nova beside which ours stand.
_SECTIONS = ('default', 'compute', 'libvirt')

#: Describes the made-up hardware of a trial.
_TRIAL = 'ext_resources_fake'

#: Of 1: how near a misspelt name is to the right one, and one that may be it.
_SIMILAR = 0.9
_ALIKE = 0.6

#: Of more groups, a name says nothing.
_FEW = 2


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
            for words in _check(section, options.keys(), known):
                yield f'{path}: [{section}] {words}.'


def _check(
    section: str, names: Collection[str], known: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Describe what is wrong with the options of a section, and what to do."""
    # As oslo.config reads it.
    group = section.lower()
    if group in known:
        for name in sorted(set(names) - set(known[group])):
            yield (
                f'{name} has no effect, because there is no such option. '
                f'{_advise(name, group, known)}'
            )
    elif _is_meant(group, known):
        yield (
            'has no effect, because no installed plugin has this group. '
            f'{_advise_group(group, known)}'
        )
    elif group in _SECTIONS:
        for name in sorted(set(names) & set(known.get(_PREFIX, ()))):
            yield f'{name} has no effect there. Move it to [{_PREFIX}]'


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


def _advise(
    name: str, group: str, known: Mapping[str, Collection[str]]
) -> str:
    def find_nearest(cutoff: float) -> list[str]:
        return difflib.get_close_matches(name, known[group], 1, cutoff)

    owners = [
        f'[{one}]'
        for one in sorted(known.keys() - {_TRIAL})
        if name in known[one]
    ]
    if nearest := find_nearest(_SIMILAR):
        return f'Write {nearest[0]}'
    if 0 < len(owners) <= _FEW:
        return f'Move it to {" or ".join(owners)}'
    nearest = find_nearest(_ALIKE)
    return f'Write {nearest[0]}' if nearest else 'Remove it'


def _advise_group(group: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(group, known, n=1, cutoff=_SIMILAR)
    if nearest:
        return f'Write [{nearest[0]}]'
    return 'Remove it, or install the plugin that reads it'
