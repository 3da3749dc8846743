"""An HTTP endpoint that stores the batches that it accepts.

Usage: endpoint.py PORT FILE SECRET
It answers 401 to a wrong signature, and 422 to a batch with a payload {"refuse": true}.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    """Stores each accepted body as a line, before it answers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802
        self._answer(200)

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.digest(sys.argv[3].encode(), signed, hashlib.sha256)).decode()
        if self.headers["webhook-signature"] != f"v1,{expected}":
            return self._answer(401)
        messages = json.loads(body)["messages"]
        if any(message.get("payload") == {"refuse": True} for message in messages):
            return self._answer(422)
        with open(sys.argv[2], "ab") as file:
            line = json.dumps({"id": self.headers["webhook-id"], "messages": messages})
            os.write(file.fileno(), line.encode() + b"\n")
        return self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
