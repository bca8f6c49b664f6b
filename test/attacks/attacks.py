"""Owns: the table of all attacks."""
import dataclasses

import attacks_http1
import attacks_http2
import attacks_tls
import attacks_websocket

ATTACKS = [
    dataclasses.replace(attack, protocol=protocol)
    for protocol, module in (("http1", attacks_http1), ("tls", attacks_tls), ("websocket", attacks_websocket), ("http2", attacks_http2))
    for attack in module.ATTACKS
]
