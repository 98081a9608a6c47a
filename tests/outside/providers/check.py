"""Holds requests against the types of the vendors' own libraries.

usage: check.py REQUESTS DIFFERENCES

REQUESTS has one request per line: {"service", "model", "api", "what", "body"}. DIFFERENCES lists what differs on
purpose, with the reason; one that no request shows any more is a fault too. Nothing is sent anywhere.
"""

import collections.abc
import json
import re
import sys
import tomllib
import types
import typing
from collections import defaultdict

import typing_extensions

NoneType = type(None)


def is_typed_dict(kind):
    return typing.is_typeddict(kind) or typing_extensions.is_typeddict(kind)


def check(value, kind, path):
    """The faults of a value against a type of the typing module, each as (path, words)."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in (typing.Any, object):
        return []
    if isinstance(kind, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else typing_extensions.TypeAliasType):
        return check(value, kind.__value__, path)
    if origin in (typing_extensions.Required, typing_extensions.NotRequired, typing.Annotated):
        return check(value, args[0], path)
    if getattr(origin, "__name__", "") in ("Nullable", "OptionalNullable"):
        return [] if value is None else check(value, args[0], path)
    if origin in (typing.Union, types.UnionType):
        return check_union(value, args, path)
    if origin in (typing.Literal, typing_extensions.Literal):
        return [] if value in args else [(path, f"{value!r} is none of {args}")]
    if is_typed_dict(kind):
        return check_object(value, kind, path)
    if kind is NoneType:
        return [] if value is None else [(path, "is not null")]
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            return [(path, "is no object")]
        return [fault for name, part in value.items() for fault in check(part, args[1], f"{path}.{name}")]
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable) or "SequenceNotStr" in str(origin):
        if not isinstance(value, list):
            return [(path, "is no list")]
        return [fault for part in value for fault in check(part, args[0], f"{path}[]")]
    if isinstance(kind, type) and kind in (str, int, float, bool, dict, list):
        fits = isinstance(value, (int, float)) if kind is float else isinstance(value, kind)
        fits = fits and (kind is bool or not isinstance(value, bool))
        return [] if fits else [(path, f"{json.dumps(value)[:80]} is no {kind.__name__}")]
    if isinstance(kind, type):
        # A class of the library's own, such as an enumeration of texts, or a file.
        return [] if isinstance(value, str) else [(path, f"is no {kind.__name__}")]
    if isinstance(kind, typing.TypeVar) or isinstance(kind, (str, typing.ForwardRef)):
        raise TypeError(f"{path}: a type that is not known here: {kind!r}")
    raise TypeError(f"{path}: a type that is not known here: {kind!r}, {origin!r}")


def check_union(value, members, path):
    """A value fits a union if it fits one member; otherwise the faults of the member that it comes closest to."""
    best = None
    for member in members:
        faults = check(value, member, path)
        if not faults:
            return []
        # Whoever has another `type` or `role` was not meant.
        wrong_tag = any(where.endswith((".type", ".role")) and where.count(".") == path.count(".") + 1 for where, _ in faults)
        wrong_kind = any(where == path for where, _ in faults)
        rank = (wrong_kind, wrong_tag, len(faults))
        if best is None or rank < best[0]:
            best = (rank, faults)
    return best[1]


def is_required(kind, name, hint):
    """What stands in quotes is resolved in the hint alone, so that it counts before `__required_keys__`."""
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing_extensions.Required):
        return True
    return origin not in (typing.NotRequired, typing_extensions.NotRequired) and name in kind.__required_keys__


def check_object(value, kind, path):
    if not isinstance(value, dict):
        return [(path, "is no object")]
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    faults = [(f"{path}.{name}", "is missing") for name, hint in hints.items() if name not in value and is_required(kind, name, hint)]
    for name, part in value.items():
        if name not in hints:
            faults.append((f"{path}.{name}", f"is not known to {kind.__name__}"))
        else:
            faults += check(part, hints[name], f"{path}.{name}")
    return faults


def by_models(parts):
    """A check of parts of a body against pydantic models: {name: (model, is it a list?)}."""
    import pydantic

    def one(value, model, path):
        try:
            model.model_validate(value)
            return []
        except pydantic.ValidationError as error:
            where = lambda part: "[]" if isinstance(part, int) else f".{part}"
            return [(path + "".join(map(where, fault["loc"])), fault["msg"]) for fault in error.errors()]

    def of(body):
        faults = []
        for name, value in body.items():
            if name not in parts:
                faults.append((f".{name}", "is not known"))
                continue
            model, is_list = parts[name]
            for part in value if is_list else [value]:
                faults += one(part, model, f".{name}[]" if is_list else f".{name}")
        return faults

    return of


def google():
    from google.genai import types as genai

    return by_models({
        "contents": (genai.Content, True),
        "systemInstruction": (genai.Content, False),
        "tools": (genai.Tool, True),
        "toolConfig": (genai.ToolConfig, False),
        "generationConfig": (genai.GenerationConfig, False),
    })


def bedrock():
    import botocore.session
    from botocore.validate import ParamValidator

    shape = botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("ConverseStream").input_shape

    def of(body):
        report = ParamValidator().validate({"modelId": "m", **body}, shape).generate_report()
        return [(re.sub(r"\[\d+\]", "[]", line.split(":")[0]), line) for line in report.splitlines()]

    return of


def by_type(kind):
    return lambda body: check(body, kind, "")


def checks():
    """For each service the check of its vendor's library; for each protocol the one of those without a library."""
    from anthropic.types.message_create_params import MessageCreateParamsStreaming as Anthropic
    from groq.types.chat.completion_create_params import CompletionCreateParams as Groq
    from mistralai.client.models import ChatCompletionStreamRequestTypedDict as Mistral
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming as Chat
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming as Responses
    from perplexity.types.chat.completion_create_params import CompletionCreateParamsStreaming as Perplexity
    from together.types.chat.completion_create_params import CompletionCreateParamsStreaming as Together

    services = {
        "groq": by_type(Groq),
        "mistral": by_type(Mistral),
        "perplexity": by_type(Perplexity),
        "together": by_type(Together),
    }
    protocols = {
        "anthropic_messages": by_type(Anthropic),
        "openai_completions": by_type(Chat),
        "openai_responses": by_type(Responses),
        "azure_openai": by_type(Responses),
        "google_generative_ai": google(),
        "google_vertex": google(),
        "bedrock_converse": bedrock(),
    }
    return services, protocols


def main(requests, differences):
    services, protocols = checks()
    found = defaultdict(list)
    count = 0
    with open(requests, encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            count += 1
            service, api = request["service"], request["api"]
            held = services.get(service) or protocols[api]
            for path, words in held(request["body"]):
                found[service, path.lstrip(".")].append(f"{request['model']}, {request['what']}: {words}")
    if count == 0:
        sys.exit("error: there are no requests to check")
    with open(differences, "rb") as file:
        known = tomllib.load(file)["difference"]
    faults = []
    allowed = {(service, entry["field"]) for entry in known for service in entry["services"]}
    faults += [f"{entry['field']}: no reason is given" for entry in known if not entry["reason"].strip()]
    for (service, path), cases in sorted(found.items()):
        if (service, path) not in allowed:
            faults.append(f"{service}: {path}: {cases[0]} ({len(cases)} requests)")
    faults += [f"{service}: {path}: listed as a difference, and no request shows it" for service, path in sorted(allowed - set(found))]
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    print(f"{count} requests, {len(allowed)} differences on purpose, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
