# SPDX-License-Identifier: Apache-2.0

"""Each supported release of Nova has constraints, tests, jobs and a line."""

import ast
from collections.abc import Iterator
import pathlib
import re

import yaml

import nova_ext_resources
from nova_ext_resources.virt.compat import private_api
from nova_ext_resources.virt.compat import releases
from tests import base

PACKAGE = pathlib.Path(nova_ext_resources.__path__[0])
ROOT = PACKAGE.parent
NEWEST, *OLDER = releases.SUPPORTED

LISTED = frozenset(private_api.NAMES)

#: How much that is internal may be replaced, and used in all: they only fall.
MAX_REPLACED = 10
MAX_INTERNAL = 101

#: What Nova keeps the same for others.
_PUBLIC = re.compile(
    r'nova\.objects(\.fields)?:\w+(\.[a-z]\w*)?$'
    r'|nova\.virt\.driver:ComputeDriver\.[a-z]'
    r'|nova\.compute\.provider_tree:ProviderTree\.[a-z]'
    r'|nova\.scheduler\.filters:BaseHostFilter\.'
    r'|nova\.scheduler\.weights:BaseHostWeigher\.'
    r'|nova\.api\.validation\.extra_specs\.base:ExtraSpecValidator\.'
)

#: What runs in Nova, and so uses it.
_FOLDERS = ('virt', 'scheduler')


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding='utf-8')


def list_trees() -> Iterator[ast.Module]:
    files = [
        path for one in _FOLDERS for path in (PACKAGE / one).rglob('*.py')
    ]
    for path in [*files, PACKAGE / 'cmd/compute.py']:
        yield ast.parse(path.read_text(encoding='utf-8'))


def find_aliases(tree: ast.Module) -> dict[str, str]:
    """Return what a module imports of Nova, by the name it has there."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.startswith('nova.'):
                    found[one.name] = one.name
        elif isinstance(node, ast.ImportFrom) and (
            f'{node.module}.'.startswith('nova.')
        ):
            for one in node.names:
                found[one.asname or one.name] = f'{node.module}.{one.name}'
    return found


def list_used(tree: ast.Module) -> Iterator[str]:
    """Return ``module:name`` of all that a module takes from Nova's."""
    aliases = find_aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module, _dot, rest = ast.unparse(node).rpartition('.')
            if module in aliases:
                yield f'{aliases[module]}:{rest}'


def list_private(tree: ast.Module) -> Iterator[str]:
    """Return names with an underscore, and what is called of ``super()``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of_super = ast.unparse(node.value) == 'super()'
            is_private = node.attr.startswith('_')
            if (of_super or is_private) and not node.attr.startswith('__'):
                yield node.attr


def list_own() -> Iterator[str]:
    """Return the private names that this package defines."""
    for path in PACKAGE.rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    yield name
                case ast.Name(id=name, ctx=ast.Store()):
                    yield name


class ReleasesTest(base.TestCase):
    def test_the_newest_is_the_one_of_the_constraints(self) -> None:
        [version] = re.findall(
            r'^nova==(\S+)$', read('upper-constraints.txt'), re.M
        )

        self.assertEqual(str(NEWEST.major), version.partition('.')[0])

    def test_the_older_ones_have_constraints_and_environments(self) -> None:
        tox = read('tox.ini')
        for one in OLDER:
            with self.subTest(release=str(one)):
                path = f'constraints/nova-{one.major}.txt'
                [version] = re.findall(r'^nova==(\S+)$', read(path), re.M)

                self.assertEqual(str(one.major), version.partition('.')[0])
                self.assertIn(f'nova{one.major}: -c{{toxinidir}}/{path}', tox)
                self.assertIn(
                    f'- {version} ({one.name})',
                    read('doc/source/admin/support.rst'),
                )

    def test_no_constraints_are_left_of_a_former_one(self) -> None:
        files = sorted(one.stem for one in (ROOT / 'constraints').iterdir())

        self.assertEqual(sorted(f'nova-{one.major}' for one in OLDER), files)

    def test_the_jobs_run_on_each(self) -> None:
        found = yaml.safe_load(read('.zuul.yaml'))
        made = [one['job'] for one in found if 'job' in one]
        jobs = {one['name']: one for one in made}
        [project] = [one['project'] for one in found if 'project' in one]
        for one in OLDER:
            with self.subTest(release=str(one)):
                name = f'nova-ext-resources-functional-nova{one.major}'

                self.assertEqual(
                    f'functional-nova{one.major}',
                    jobs[name]['vars']['tox_envlist'],
                )
                self.assertIn(name, project['check']['jobs'])
                self.assertIn(name, project['gate']['jobs'])

    def test_the_job_on_the_newest_python_builds_it(self) -> None:
        found = yaml.safe_load(read('.zuul.yaml'))
        jobs = {
            one['job']['name']: one['job'] for one in found if 'job' in one
        }
        [project] = [one['project'] for one in found if 'project' in one]
        newest = re.findall(r'Python :: (3\.\d+)$', read('setup.cfg'), re.M)[
            -1
        ]
        short = f'py{newest.replace(".", "")}'
        name = f'nova-ext-resources-functional-{short}'
        made = jobs[name]['vars']

        self.assertEqual(newest, made['python_version'])
        self.assertIs(True, made['python_use_pyenv'])
        self.assertIn(f'[testenv:{made["tox_envlist"]}]', read('tox.ini'))
        for pipeline in ('check', 'gate'):
            for job in (name, f'openstack-tox-{short}'):
                self.assertIn(job, project[pipeline]['jobs'])

    def test_the_requirements_allow_all_of_them(self) -> None:
        wanted = f'nova>={OLDER[-1].major},<{NEWEST.major + 1}'

        for name in ('functional-requirements.txt', 'setup.cfg'):
            with self.subTest(name=name):
                self.assertIn(wanted, read(name))

    def test_a_version_is_supported_by_its_first_part(self) -> None:
        self.assertTrue(releases.is_supported('33.0.2'))
        self.assertTrue(releases.is_supported('34.1.0.dev17'))
        self.assertFalse(releases.is_supported('3.4.0'))
        self.assertFalse(releases.is_supported('340.0.0'))


class InternalsTest(base.TestCase):
    def test_all_that_is_taken_of_nova_is_listed(self) -> None:
        used = {one for tree in list_trees() for one in list_used(tree)}
        # Of a class, what is used of it is listed.
        listed = LISTED | {
            name.rpartition('.')[0]
            for name in LISTED
            if '.' in name.partition(':')[2]
        }

        modules = {name.partition(':')[0] for name in listed}
        of_packages = {one for one in used if one.replace(':', '.') in modules}
        self.assertEqual(set(), used - listed - of_packages)
        self.assertIn('nova.context:get_admin_context', used)

    def test_all_that_is_private_is_listed(self) -> None:
        used = {one for tree in list_trees() for one in list_private(tree)}
        listed = {re.split('[.:]', one)[-1] for one in LISTED}

        self.assertEqual(set(), used - set(list_own()) - listed)
        self.assertIn('_sanity_check_new_host', used)

    def test_the_list_is_in_order(self) -> None:
        for names in (
            private_api.REPLACED,
            private_api.USED,
            private_api.PUBLIC,
        ):
            self.assertEqual(sorted(names, key=split), [*names])
        self.assertEqual(len(LISTED), len(private_api.NAMES))

    def test_less_and_less_of_it_is_internal(self) -> None:
        replaced, used = len(private_api.REPLACED), len(private_api.USED)

        self.assertLessEqual(replaced, MAX_REPLACED)
        self.assertLessEqual(replaced + used, MAX_INTERNAL)

    def test_the_rest_is_public_by_a_rule(self) -> None:
        for name in private_api.PUBLIC:
            with self.subTest(name=name):
                self.assertRegex(name, _PUBLIC)


def split(name: str) -> list[str]:
    """Return the module or class of a name, and the rest."""
    return re.split(r'[.:](?=\w+$)', name)
