# SPDX-License-Identifier: Apache-2.0

"""How Sphinx builds the release notes."""

project = 'nova-ext-resources Release Notes'
copyright = 'nova-ext-resources developers'

extensions = [
    'openstackdocstheme',
    'reno.sphinxext',
]

openstackdocs_repo_name = 'nova-ext-resources'
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_use_storyboard = False
html_theme = 'openstackdocs'

version = ''
release = ''
root_doc = 'index'
exclude_patterns: list[str] = []
