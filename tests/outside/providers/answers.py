"""Holds what is read of answers against the types of the vendors' own libraries.

usage: answers.py write ANSWERS
       answers.py check ANSWERS READ DIFFERENCES

`write` makes answers that fit the vendor's types: for each number of its usage one in which that number differs. READ is
what the decoders made of them. A number that changes nothing is not read, and is a fault unless DIFFERENCES lists it with
the reason; one that is listed and read is a fault too. Nothing is sent anywhere.
"""

import base64
import json
import struct
import sys
import tomllib
import typing
import zlib

import pydantic

# Numbers of an answer: a whole is larger than the sum of its parts, of which some stand beside it.
WHOLE, PART, MORE = 10_000, 100, 7


def is_part(path):
    return len(path) > 1 or path[-1].startswith("cached")


def unwrapped(kind):
    """The type within an optional one."""
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    if typing.get_origin(kind) is typing.Union or "Nullable" in str(kind):
        for member in members:
            inner = unwrapped(member)
            if inner is int or isinstance(inner, type) and issubclass(inner, pydantic.BaseModel):
                return inner
    return kind


def numbers(model, path=()):
    """The paths of the numbers in a model, and in the models within it."""
    for name, field in model.model_fields.items():
        kind, here = unwrapped(field.annotation), (*path, field.alias or name)
        if kind is int:
            yield here
        elif isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
            yield from numbers(kind, here)


def usage_of(paths, differs):
    """A usage with all of these numbers, one of them larger."""
    usage = {}
    for path in paths:
        at = usage
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = (PART if is_part(path) else WHOLE) + (MORE if path == differs else 0)
    return usage


def sse(events, last=()):
    """Server-sent events: each a name, if it has one, and a value."""
    frames = [(f"event: {name}\n" if name else "") + f"data: {json.dumps(value)}\n\n" for name, value in events]
    return ("".join(frames) + "".join(f"data: {word}\n\n" for word in last)).encode()


def chat(model, usage_model, wrap=lambda usage: {"usage": usage}):
    """Chat completions as one vendor has them."""
    def events(usage):
        head = {"id": "c", "created": 1, "model": "m", "object": "chat.completion.chunk"}
        said = {"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": None}
        ended = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
        chunks = [{**head, "choices": [said]}, {**head, "choices": [ended], **wrap(usage)}]
        for chunk in chunks:
            model.model_validate(chunk, strict=True)
        return sse([(None, chunk) for chunk in chunks], ["[DONE]"])

    return "openai_completions", list(numbers(usage_model)), events


def responses():
    from openai.types.responses import ResponseCompletedEvent, ResponseTextDeltaEvent
    from openai.types.responses.response_usage import ResponseUsage

    def events(usage):
        text = {"type": "output_text", "text": "hi", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        whole = {"id": "r", "created_at": 1, "model": "gpt-5", "object": "response", "output": [item], "usage": usage,
                 "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}
        delta = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0,
                 "delta": "hi", "logprobs": [], "sequence_number": 1}
        completed = {"type": "response.completed", "response": whole, "sequence_number": 2}
        ResponseTextDeltaEvent.model_validate(delta, strict=True)
        ResponseCompletedEvent.model_validate(completed, strict=True)
        return sse([(event["type"], event) for event in (delta, completed)])

    return "openai_responses", list(numbers(ResponseUsage)), events


def anthropic():
    from anthropic.types import RawContentBlockDeltaEvent, RawMessageDeltaEvent, RawMessageStartEvent, Usage

    def events(usage):
        message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": usage}
        start = {"type": "message_start", "message": message}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
               "usage": {"output_tokens": 1}}
        RawMessageStartEvent.model_validate(start, strict=True)
        RawContentBlockDeltaEvent.model_validate(piece, strict=True)
        RawMessageDeltaEvent.model_validate(end, strict=True)
        all_of_them = [start, block, piece, {"type": "content_block_stop", "index": 0}, end, {"type": "message_stop"}]
        return sse([(event["type"], event) for event in all_of_them])

    return "anthropic_messages", list(numbers(Usage)), events


def google():
    from google.genai.types import GenerateContentResponse, GenerateContentResponseUsageMetadata as Metadata

    def events(usage):
        content = {"role": "model", "parts": [{"text": "hi"}]}
        chunk = {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": usage}
        GenerateContentResponse.model_validate(chunk)
        return sse([(None, chunk)])

    return "google_generative_ai", list(numbers(Metadata)), events


def bedrock():
    import botocore.session
    from botocore.validate import ParamValidator

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    stream = service.operation_model("ConverseStream").output_shape.members["stream"]
    metadata = stream.members["metadata"]

    def whole(shape, path=()):
        for name, member in shape.members.items():
            if member.type_name in ("integer", "long"):
                yield (*path, name)
            elif member.type_name == "structure":
                yield from whole(member, (*path, name))

    def frame(kind, payload):
        """Lengths, headers and payload between two checksums."""
        headers = b""
        for name, value in ((":message-type", "event"), (":event-type", kind), (":content-type", "application/json")):
            headers += struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        payload = json.dumps(payload).encode()
        start = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
        start += struct.pack("!I", zlib.crc32(start)) + headers + payload
        return start + struct.pack("!I", zlib.crc32(start))

    def events(usage):
        parts = [
            ("messageStart", {"role": "assistant"}),
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hi"}}),
            ("contentBlockStop", {"contentBlockIndex": 0}),
            ("messageStop", {"stopReason": "end_turn"}),
            ("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}),
        ]
        for kind, payload in parts:
            report = ParamValidator().validate(payload, stream.members[kind]).generate_report()
            if report:
                sys.exit(f"error: bedrock: {kind}: {report}")
        return b"".join(frame(*part) for part in parts)

    return "bedrock_converse", list(whole(metadata.members["usage"])), events


def services():
    """For each service its protocol, the numbers of its usage, and what makes an answer of a usage."""
    from groq.types.chat import ChatCompletionChunk as Groq
    from groq.types.completion_usage import CompletionUsage as GroqUsage
    from mistralai.client.models import CompletionChunk as Mistral, UsageInfo as MistralUsage
    from openai.types.chat import ChatCompletionChunk as OpenAi
    from openai.types.completion_usage import CompletionUsage as OpenAiUsage
    from together.types.chat.chat_completion_chunk import ChatCompletionChunk as Together
    from together.types.chat.chat_completion_usage import ChatCompletionUsage as TogetherUsage

    return {
        "openai": chat(OpenAi, OpenAiUsage),
        "groq": chat(Groq, GroqUsage, lambda usage: {"x_groq": {"id": "r", "usage": usage}}),
        "mistral": chat(Mistral, MistralUsage),
        "together": chat(Together, TogetherUsage),
        "openai-responses": responses(),
        "anthropic": anthropic(),
        "google": google(),
        "bedrock": bedrock(),
    }


def write(answers):
    with open(answers, "w", encoding="utf-8") as file:
        for service, (api, paths, events) in services().items():
            for path in [None, *paths]:
                body = base64.b64encode(events(usage_of(paths, path))).decode()
                line = {"service": service, "api": api, "number": path and ".".join(path), "body": body}
                file.write(json.dumps(line) + "\n")


def check(answers, read, differences):
    with open(answers, encoding="utf-8") as lines, open(read, encoding="utf-8") as results:
        pairs = list(zip(map(json.loads, lines), map(json.loads, results), strict=True))
    with open(differences, "rb") as file:
        known = tomllib.load(file)["unread"]
    faults = [f"{entry['number']}: no reason is given" for entry in known if not entry["reason"].strip()]
    listed = {(service, entry["number"]) for entry in known for service in entry["services"]}
    unchanged, unread = {}, set()
    for answer, got in pairs:
        service, number = answer["service"], answer["number"]
        if got.get("text") != "hi" or got.get("stop") != "stop":
            faults.append(f"{service}: {number}: an answer that fits the vendor's types is read as {got}")
        elif number is None:
            unchanged[service] = got["usage"]
        elif got["usage"] == unchanged.get(service):
            unread.add((service, number))
    faults += [f"{service}: {number} is not read, and not listed" for service, number in sorted(unread - listed)]
    faults += [f"{service}: {number}: listed as not read, and it is" for service, number in sorted(listed - unread)]
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    print(f"{len(pairs)} answers, {len(listed)} numbers not read on purpose, {len(faults)} faults")
    sys.exit(1 if faults or not pairs else 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", answers]:
            write(answers)
        case ["check", answers, read, differences]:
            check(answers, read, differences)
        case _:
            sys.exit(__doc__)
