# SPDX-License-Identifier: Apache-2.0

"""Compares placement with Nova, over the whole cloud. Pure.

What no host can find by itself: what placement has allocated to consumers
that are on another host or nowhere, hosts that are gone, and pools that belong
to no host. Doubt never releases: what Nova is at work on is left alone.

* ``cloud``: what placement and Nova show, as values
* ``compare``: returns all that is wrong, and what is wrong a second time
* ``demands``: what a server requests, and has on its host
* ``finding``: all kinds of findings, and what to do about each; the other
  modules find them
* ``moves``: what migrations hold that have ended
* ``pools``: sharing providers, and what ties hosts to them
* ``providers``: providers without a host, and with too much allocated
* ``servers``: what servers hold elsewhere, and too much or too little of;
  where they may have what they lack
* ``strangers``: consumers that Nova knows nothing of
"""
