#!/usr/bin/env python3
"""Writes cases.json. It uses only hashlib, hmac and stringprep, no SCRAM library."""

import base64
import hashlib
import hmac
import json
import pathlib
import stringprep
import unicodedata

HERE = pathlib.Path(__file__).parent
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

USER, PASSWORD = "user", "pencil"
CLIENT_NONCE = "fyko+d2lbbFgONRv9qkxdawL"
SERVER_NONCE = "3rfcNHYJY1ZVvWVs7j"
SALT = bytes(range(16))
ITERATIONS = 4096

# The messages of an exchange, in order. Those after a fault are absent.
MESSAGES = ("client_first", "server_first", "client_final", "server_final")


def encoded(data):
    return base64.b64encode(data).decode()


def escaped(name):
    return name.replace("=", "=3D").replace(",", "=2C")


def challenge(nonce=CLIENT_NONCE + SERVER_NONCE, salt=SALT, iterations=ITERATIONS, more=""):
    return f"r={nonce},s={encoded(salt)},i={iterations}{more}"


def prepared(text):
    """Applies RFC 4013 for stored strings; returns None if it does not allow the text."""
    mapped = "".join(" " if stringprep.in_table_c12(sign) else sign for sign in text if not stringprep.in_table_b1(sign))
    normal = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    prohibited = (
        stringprep.in_table_a1, stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
        stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9,
    )
    if not normal or any(is_in(sign) for sign in normal for is_in in prohibited):
        return None
    right_to_left = [stringprep.in_table_d1(sign) for sign in normal]
    if any(right_to_left) and (any(map(stringprep.in_table_d2, normal)) or not (right_to_left[0] and right_to_left[-1])):
        return None
    return normal


def exchange(mechanism, user, password, client_nonce, server_first):
    """Returns the four messages of a correct exchange."""
    name = HASHES[mechanism]
    fields = dict(field.split("=", 1) for field in server_first.split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    bare = f"n={escaped(user)},r={client_nonce}"
    without_proof = f"c={encoded(b'n,,')},r={fields['r']}"
    message = f"{bare},{server_first},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature))
    server_signature = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
    finals = f"{without_proof},p={encoded(proof)}", f"v={encoded(server_signature)}"
    return dict(zip(MESSAGES, (f"n,,{bare}", server_first, *finals)))


def vector(id, comment, result, messages, mechanism="SCRAM-SHA-256", user=USER, password=PASSWORD, nonce=CLIENT_NONCE):
    given = {"mechanism": mechanism, "user": user, "password": password, "client_nonce": nonce}
    return {"id": id, "comment": comment, **given, **messages, "result": result}


def accepted(id, comment, mechanism="SCRAM-SHA-256", user=USER, password=PASSWORD, nonce=CLIENT_NONCE, server_first=None):
    messages = exchange(mechanism, user, password, nonce, server_first or challenge())
    return vector(id, comment, "valid", messages, mechanism, user, password, nonce)


def refused_first(id, comment, result, server_first):
    first = {"client_first": f"n,,n={USER},r={CLIENT_NONCE}", "server_first": server_first}
    return vector(id, comment, result, first)


def refused_final(id, comment, result, change, mechanism="SCRAM-SHA-256"):
    messages = exchange(mechanism, USER, PASSWORD, CLIENT_NONCE, challenge())
    messages["server_final"] = change(messages["server_final"])
    return vector(id, comment, result, messages, mechanism)


def published():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    nonce, other = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = challenge(nonce + other, salt)
    yield accepted("rfc7677", "the exchange of RFC 7677, section 3", nonce=nonce, server_first=first)
    comment = "the exchange of RFC 7677 with the other hash"
    yield accepted("rfc7677-sha-512", comment, "SCRAM-SHA-512", nonce=nonce, server_first=first)


def good():
    for name, mechanism in (("sha-256", "SCRAM-SHA-256"), ("sha-512", "SCRAM-SHA-512")):
        long = "p" * 200
        yield accepted(f"user-escaped-{name}", "a comma and an equals sign in the name", mechanism, user="a=b,c=2C")
        yield accepted(f"password-long-{name}", "a password longer than a block of the hash", mechanism, password=long)
    yield accepted("user-every-sign", "all visible characters of ASCII and the space", user=bytes(range(32, 127)).decode())
    yield accepted("password-every-sign", "the same in the password", password=bytes(range(32, 127)).decode())
    for bytes_ in (1, 2, 3, 64):
        comment = f"a salt of {bytes_} bytes"
        yield accepted(f"salt-{bytes_}", comment, server_first=challenge(salt=bytes(range(bytes_))))
    yield accepted("iterations-odd", "another number of iterations", server_first=challenge(iterations=5001))
    comment = "extensions of the server that the client need not know"
    yield accepted("server-first-extension", comment, server_first=challenge(more=",x=y,z=1"))
    yield refused_final("server-final-extension", "the same behind the signature", "valid", lambda final: final + ",x=y")


def wrong_credentials():
    for id, comment, user, password in (
        ("user-empty", "a name that is empty", "", PASSWORD),
        ("user-control", "a name with a control character", "us\ter", PASSWORD),
        ("password-empty", "a password that is empty", USER, ""),
        ("password-control", "a password with a control character", USER, "pencil\n"),
    ):
        yield vector(id, comment, "scram_credentials", {}, user=user, password=password)


def beyond_ascii():
    """Clients without SASLprep refuse all of these. Clients with it refuse those that it does not allow."""
    for id, comment, text in (
        ("not-ascii", "beyond ASCII", "p\u00e9ncil"),
        ("decomposed", "a letter and an accent, which become one", "pe\u0301ncil"),
        ("soft-hyphen", "RFC 4013, section 3: a soft hyphen, which becomes nothing", "I\u00adX"),
        ("ordinal", "RFC 4013, section 3: an ordinal, which becomes a letter", "\u00aa"),
        ("roman", "RFC 4013, section 3: a Roman numeral, which becomes two letters", "\u2168"),
        ("no-break-space", "a space that does not break, which becomes a space", "a\u00a0b"),
        ("right-to-left", "letters that are written from right to left", "\u0627\u0628"),
        ("emoji", "a sign that Unicode 3.2 does not have: not allowed", "\U0001f600"),
        ("mixed-direction", "RFC 4013, section 3: two directions: not allowed", "\u06271"),
        ("only-hyphen", "nothing when it is prepared: not allowed", "\u00ad"),
        ("private", "a character for private use: not allowed", "\ue000"),
        ("c1-control", "a control character beyond ASCII: not allowed", "a\u0085"),
    ):
        result = prepared(text)
        for what in ("user", "password"):
            given = {"user": USER, "password": PASSWORD, what: text}
            then = {}
            if result is not None:
                messages = exchange("SCRAM-SHA-256", **{**given, what: result}, client_nonce=CLIENT_NONCE, server_first=challenge())
                then = {"prepared": messages}
            yield vector(f"{what}-{id}", f"{what}: {comment}", "scram_credentials", then, **given)


def wrong_challenges():
    nonce, salt = CLIENT_NONCE + SERVER_NONCE, encoded(SALT)
    for id, comment, text in (
        ("empty", "nothing at all", ""),
        ("no-nonce", "no nonce", f"s={salt},i=4096"),
        ("no-salt", "no salt", f"r={nonce},i=4096"),
        ("no-iterations", "no iterations", f"r={nonce},s={salt}"),
        ("order", "the fields in another order", f"r={nonce},i=4096,s={salt}"),
        ("salt-empty", "a salt of no bytes", f"r={nonce},s=,i=4096"),
        ("salt-not-base64", "a salt that is not Base64", f"r={nonce},s=AA*=,i=4096"),
        ("salt-not-padded", "a salt without its padding", f"r={nonce},s=AAE,i=4096"),
        ("salt-padded-within", "padding in the middle of the salt", f"r={nonce},s=AA==AAAA,i=4096"),
        ("iterations-empty", "iterations without a digit", f"r={nonce},s={salt},i="),
        ("iterations-sign", "iterations with a sign", f"r={nonce},s={salt},i=+4096"),
        ("iterations-zero-first", "iterations that begin with 0", f"r={nonce},s={salt},i=04096"),
        ("iterations-letters", "iterations with something behind", f"r={nonce},s={salt},i=4096x"),
        ("mandatory-extension", "an extension that the client must know", f"m=ext,r={nonce},s={salt},i=4096"),
        ("control", "a zero byte", challenge(more=",x=\0")),
        ("not-ascii", "a byte that is not of ASCII", challenge(more=",x=\u00e9")),
        ("long", "more than 1,024 bytes", challenge(more=",x=" + "y" * 1024)),
        ("is-final", "the last message in place of the first", "v=AAAA"),
    ):
        yield refused_first(f"server-first-{id}", comment, "scram_malformed", text)
    for id, comment, other in (
        ("another", "a nonce that does not begin with the client's", "x" + nonce),
        ("client-only", "the client's nonce with nothing of the server's", CLIENT_NONCE),
        ("shorter", "the beginning of the client's nonce", CLIENT_NONCE[:-1]),
        ("case", "the client's nonce in another case", nonce.upper()),
        ("empty", "an empty nonce", ""),
    ):
        yield refused_first(f"nonce-{id}", comment, "scram_nonce", challenge(other))
    for id, comment, iterations in (
        ("few", "one iteration fewer than RFC 7677 asks for", 4095),
        ("one", "one iteration", 1),
        ("zero", "no iteration", 0),
        ("many", "one iteration more than a client takes by default", 100_001),
        ("hostile", "iterations that would take hours", 4_294_967_295),
        ("overflow", "a number that no integer holds", 10**30 + 4096),
    ):
        yield refused_first(f"iterations-{id}", comment, "scram_iterations", challenge(iterations=iterations))
    yield refused_first("server-first-error", "the server refuses at once", "scram_refused", "e=unknown-user")


def wrong_ends():
    other = exchange("SCRAM-SHA-256", USER, "rubber", CLIENT_NONCE, challenge())["server_final"]
    yield refused_final("signature-other-password", "the server has another password", "scram_server_signature", lambda _: other)
    for mechanism, bytes_ in (("SCRAM-SHA-256", 32), ("SCRAM-SHA-512", 64)):
        name = HASHES[mechanism]
        for id, comment, change in (
            ("zeros", "zeros for a signature", lambda _, n=bytes_: f"v={encoded(bytes(n))}"),
            ("short", "a signature without its last byte", lambda final: f"v={encoded(base64.b64decode(final[2:])[:-1])}"),
            ("long", "a signature with a byte too many", lambda final: f"v={encoded(base64.b64decode(final[2:]) + bytes(1))}"),
            ("empty", "an empty signature", lambda _: "v="),
        ):
            yield refused_final(f"signature-{id}-{name}", comment, "scram_server_signature", change, mechanism)
    for id, comment, text in (
        ("absent", "no message at the end: the server has proved nothing", None),
        ("empty", "an empty message at the end", ""),
    ):
        yield refused_final(f"server-final-{id}", comment, "scram_server_signature", lambda _, text=text: text)
    yield refused_final("server-final-error", "the server refuses the proof", "scram_refused", lambda _: "e=invalid-proof")
    for id, comment, text in (
        ("not-base64", "a signature that is not Base64", "v=*"),
        ("not-padded", "a signature without its padding", "v=AAE"),
        ("other", "another field", "x=AAAA"),
        ("control", "a zero byte", "v=AAAA,x=\0"),
    ):
        yield refused_final(f"server-final-{id}", comment, "scram_malformed", lambda _, text=text: text)


def collect():
    return [*published(), *good(), *wrong_credentials(), *beyond_ascii(), *wrong_challenges(), *wrong_ends()]


def file_text(vectors):
    notes = {
        "user, password, client_nonce": "what the client is given; a real one takes a new nonce for each exchange",
        "client_first": "what the client must write; the exchange has no channel binding. Absent: the client refuses user or password",
        "server_first": "what the server says to it",
        "client_final": "what the client must write then. Absent: the client refuses server_first",
        "server_final": "what the server says with its success; null: nothing",
        "prepared": "with the result scram_credentials: the messages of a client that prepares names and passwords by SASLprep (RFC 4013), which is valid",
        "result": "valid, or the code of the error with which the client ends",
        "scram_iterations": "a client takes 4,096 to 100,000 unless it is told otherwise",
    }
    lines = ",\n".join("  " + json.dumps(one, ensure_ascii=True) for one in vectors)
    head = json.dumps({"format": "scram", "notes": notes}, indent=1)[:-2]
    return f"{head},\n \"vectors\": [\n{lines}\n ]\n}}\n"


def main():
    vectors = collect()
    (HERE / "cases.json").write_text(file_text(vectors))
    print(len(vectors), "vectors")


if __name__ == "__main__":
    main()
