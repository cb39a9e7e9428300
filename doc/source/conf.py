# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
    (r'py:.*', r'(?!nova_ext_resources\.).*'),
]
