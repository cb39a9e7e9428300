# SPDX-License-Identifier: Apache-2.0

"""How Sphinx builds the documents."""

project = 'nova-ext-resources'
copyright = 'nova-ext-resources developers'

extensions = [
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'sphinx.ext.autodoc',
    'stevedore.sphinxext',
]

openstackdocs_repo_name = 'nova-ext-resources'
openstackdocs_auto_name = False
openstackdocs_use_storyboard = False
html_theme = 'openstackdocs'

root_doc = 'index'
exclude_patterns: list[str] = []
add_module_names = False
modindex_common_prefix = ['nova_ext_resources.']
pygments_style = 'native'

autodoc_typehints = 'signature'
autodoc_member_order = 'bysource'

# References to our own names must lead somewhere; those to Python, oslo and
# Nova have no inventory here, and CI must not need the network for one.
nitpicky = True
nitpick_ignore_regex = [
    # Callers pass these on, and look into neither.
    (
        'py:class',
        r'nova_ext_resources\.reservation\.'
        r'(publication\.Publication|shortfalls\.Shortfalls)',
    ),
    (r'py:.*', r'(?!nova_ext_resources\.).*'),
]
