"""A server on the loopback that speaks as much of OpenAI's protocol as a judge needs.

    python tests/chat_server.py PORT_FILE [LATENCY_SECONDS]

It answers questions of rlvr's own rubrics from their texts: `equal` by whether the last number of
the response is the right answer, `score` by the number of words modulo 11, and `criterion` by
whether the response contains the criterion's text.
"""

import json
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODEL = "judge-of-a-test"
HANG_UP = "hang up"
_PARTS = re.compile(
    r"# (?:Question|Request)\n(?P<prompt>.*?)\n\n"
    r"(?:# Right answer\n(?P<answer>.*?)\n\n)?"
    r"# Response.*?\nBEGIN-(?P<mark>[0-9a-f]{16})\n(?P<completion>.*)\nEND-(?P=mark)\n"
    r"(?:.*?# Criterion\n(?P<criterion>.*?)\n\n)?",
    re.DOTALL,
)


def last_number(text):
    numbers = re.findall(r"-?\d+(?:\.\d+)?", text)
    return numbers[-1] if numbers else None


def grade(question):
    """What the judge of the tests says to a question of one of rlvr's own rubrics."""
    found = _PARTS.search(question)
    if not found:
        return "Verdict: yes"  # to a probe
    text = found["completion"]
    if found["criterion"]:
        return f"It is looked for.\n\nVerdict: {'yes' if found['criterion'] in text else 'no'}"
    if found["answer"] is not None:
        said = last_number(text)
        return f"It says {said}.\n\nVerdict: {'yes' if said == found['answer'] else 'no'}"
    return f"It is counted.\n\n**Score: {len(text.split()) % 11}/10**"


class Chat(ThreadingHTTPServer):
    """The server; what it is to do otherwise than grade is set on it."""

    model = MODEL
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address=("127.0.0.1", 0)):
        super().__init__(address, _Handler)
        self.say = grade  # the text of a reply, or a dict that is the whole body
        self.faults = []  # of the next requests: (status, headers, body), or HANG_UP
        self.always = None  # the same, of every request
        self.latency_s = 0.0
        self.key = None  # that it asks for
        self.seen, self.headers_seen = [], []  # the bodies of requests, and their headers
        self.models = [MODEL]  # None where there is no such list
        self.lock, self.in_flight, self.most_in_flight = threading.Lock(), 0, 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def questions(self):
        """What it was asked, without the probes."""
        texts = [body["messages"][0]["content"] for body in self.seen]
        return [text for text in texts if text != "Reply with the word yes."]

    def handle_error(self, request, client_address):
        pass  # a client that goes away is no fault of the server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *words):
        pass

    def do_GET(self):
        if self.path.endswith("/models") and self.server.models is not None:
            listed = [{"id": name, "object": "model"} for name in self.server.models]
            return self.answer(200, {"object": "list", "data": listed})
        self.answer(404, {"error": {"message": f"no {self.path}"}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
            server.seen.append(body)
            server.headers_seen.append(dict(self.headers))
            fault = server.always or (server.faults.pop(0) if server.faults else ())
        try:
            time.sleep(server.latency_s)
            self.reply(body, fault)
        finally:
            with server.lock:
                server.in_flight -= 1

    def reply(self, body, fault):
        if fault == HANG_UP:
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        if fault:
            status, headers, content = fault
            return self.answer(status, content, **headers)
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            sent = self.headers["Authorization"]
            return self.answer(401, {"error": {"message": f"Incorrect API key: {sent}"}})
        if body["model"] not in (self.server.models or [MODEL]):
            return self.answer(404, {"error": {"message": f"no model {body['model']}"}})
        question = body["messages"][0]["content"]
        said = self.server.say(question)
        if isinstance(said, dict):
            return self.answer(200, said)
        self.answer(200, completion(said, question))

    def answer(self, status, content, **headers):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(data), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(data)


def completion(text, question="", reason="stop"):
    """The body of a reply."""
    usage = {"prompt_tokens": len(question.split()), "completion_tokens": len(text.split())}
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}


if __name__ == "__main__":
    server = Chat()
    server.latency_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    Path(sys.argv[1]).write_text(str(server.server_port))
    server.serve_forever()
