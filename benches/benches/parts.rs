//! The parts one by one: a turn of the machine, the start of an agent, the hub, the decoder of responses, the journal.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use playhouse::agent::machine::{Authority, Catalog, Effect, Machine, Now, Setup, Vetting};
use playhouse::agent::{Hub, Scope};
use playhouse::prelude::*;
use playhouse::protocol::entry::{Opened, Settings};
use playhouse::protocol::{
    Access, AgentId, Command, Entry, EntryBody, EventId, Level, Op, Ruling, Secrets, Seq, SessionId, StopReason,
    StreamDelta, ToolCallId, ToolDefinition,
};
use playhouse::provider::{Finish, Limits, chat};
use playhouse::session::{ChainHash, Sync, record};
use playhouse_agent::testing::Report;
use playhouse_bench::wire::{self, Reply};
use serde_json::{Value, json};

/// One tool that only reads.
struct Props;

impl Catalog for Props {
    fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::new([])
    }

    fn vet(&self, _: Authority<'_>, _: &ToolCallId, _: &str, _: &Value) -> Vetting {
        let ruling = Ruling::Allow { by: "mode ask".into() };
        Vetting::Ready { effect: EffectClass::Read, level: Level::ReadOnly, ruling }
    }

    fn access(&self, _: &str, _: &Value) -> Access {
        Access::Reads(None)
    }

    fn summary(&self, _: &str, _: &Value, _: &Result<ToolResult, ToolError>) -> String {
        "looked".to_owned()
    }
}

fn opened() -> Opened {
    let settings = Settings {
        kind: "bench".into(),
        model: ModelConfig::scripted("x").into(),
        fallbacks: Vec::new(),
        system_prompt: wire::SYSTEM_PROMPT.into(),
        tools: Vec::new(),
        cwd: Path::new("/").into(),
        permission: PermissionMode::Ask,
        grants: Vec::new(),
        restrictions: Default::default(),
        mode: Default::default(),
        sandbox: Default::default(),
        limits: ExecutionLimits::none(),
        durability: Durability::Os,
        retry: Default::default(),
        cache: Default::default(),
        thinking_level: Default::default(),
        max_tokens: None,
        temperature: None,
        tool_execution: Default::default(),
        steering_mode: Default::default(),
        follow_up_mode: Default::default(),
        config_id: None,
        metadata: None,
    };
    Opened::new("agent".into(), SessionId::new("session").unwrap(), Arc::new(settings))
}

const NOW: Now = Now { wall: 1_794_700_800_000, mono: Duration::ZERO };

fn respond(turn: u64, calls: bool) -> Message {
    let call =
        Content::ToolCall { id: format!("call_{turn}").into(), name: wire::TOOL.into(), arguments: json!({"n": turn}) };
    Message::Assistant {
        content: if calls { vec![Content::text("Let me look."), call] } else { vec![Content::text("Done.")] },
        stop_reason: if calls { StopReason::ToolUse } else { StopReason::Stop },
        model: "x".into(),
        provider: "scripted".into(),
        usage: Usage::of(10, 10, 0, 0, 0),
        timestamp: NOW.wall,
        error_message: None,
    }
}

/// Plays a run of `turns` tool turns through the machine, answering its effects; gives how many inputs it took.
fn run(turns: u64) -> u64 {
    let mut machine = Machine::new(opened(), Setup::new(Arc::new(Props), Arc::new(ModelConfig::scripted("x"))));
    let message = Arc::new(AgentMessage::user(wire::PROMPT, NOW.wall));
    let mut effects = machine.command(NOW, Command::new("input", Op::prompt(vec![message])));
    let mut reports = Vec::new();
    let (mut taken, mut seq, mut turn) = (1, 0, 0);
    loop {
        for effect in effects {
            match effect {
                Effect::Append { batch, .. } => {
                    let seqs = batch.entries.iter().map(|_| {
                        seq += 1;
                        Seq(seq)
                    });
                    reports.push(Report::Committed { batch: batch.number, seqs: seqs.collect() });
                }
                Effect::Call { call, .. } => {
                    reports.push(Report::Responded { call, attempt: 0, message: respond(turn, turn < turns) });
                    turn += 1;
                }
                Effect::RunTool { call, .. } => reports.push(Report::ToolFinished {
                    call,
                    result: Ok(ToolResult::text(wire::tool_answer("play", turn))),
                    duration_ms: 1,
                }),
                _ => {}
            }
        }
        let Some(report) = reports.pop() else { break };
        taken += 1;
        effects = machine.report(NOW, report);
    }
    assert!(!machine.is_running() && turn == turns + 1);
    taken
}

fn machine(c: &mut Criterion) {
    let mut group = c.benchmark_group("machine");
    group.throughput(Throughput::Elements(run(100)));
    group.bench_function("inputs of a run with 100 tool turns", |b| b.iter(|| run(100)));
    group.finish();
}

fn spawn(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let house = runtime.block_on(House::in_memory()).unwrap();
    let model: Arc<dyn StreamProvider> = Arc::new(Scripted::new([Step::text("Here.")]));
    let definition = Definition { provider_override: Some(model), ..Definition::default() };
    c.bench_function("an agent comes on stage and leaves it", |b| {
        b.iter(|| {
            runtime.block_on(async {
                let agent = house.agent().definition(definition.clone()).spawn().await.unwrap();
                house.dismiss(agent.id()).await;
            });
        });
    });
}

fn event(n: u64) -> Event {
    let delta = StreamDelta::Text { delta: " word".into() };
    Event {
        id: EventId { seq: Seq(n), k: 0 },
        agent_id: AgentId::from("agent"),
        session_id: SessionId::new("session").unwrap(),
        loop_id: None,
        timestamp: Default::default(),
        event: AgentEvent::MessageUpdate { message_id: "message".into(), delta },
    }
}

fn hub(c: &mut Criterion) {
    let mut group = c.benchmark_group("hub");
    for subscribers in [0, 1, 10, 1_000] {
        let topic = Hub::default().topic(&AgentId::from("agent"));
        let mut all: Vec<_> = (0..subscribers).map(|_| topic.subscribe(1_024, Scope::Own)).collect();
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("a piece to {subscribers} subscribers who read it"), |b| {
            b.iter_batched(
                || event(1),
                |event| {
                    topic.publish(event);
                    all.iter_mut().for_each(|one| drop(one.try_next()));
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn decoder(c: &mut Criterion) {
    let Reply::Whole(response) = wire::tool_turn(7) else { panic!("a tool turn comes whole") };
    // The body alone, without its HTTP chunks.
    let text = String::from_utf8(response).unwrap();
    let body: String =
        text.lines().filter(|line| line.starts_with("data: ")).map(|line| format!("{line}\n\n")).collect();
    let mut group = c.benchmark_group("decoder");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("a response that calls a tool", |b| {
        b.iter(|| {
            let mut decoder = chat::decoder(Limits::default());
            decoder.feed(body.as_bytes(), &mut |event| drop(event)).unwrap();
            decoder.finish(&Finish { response: 0, taken: &|_| false }).unwrap()
        });
    });
    group.finish();
}

/// What a record costs on its way to the disk, its hash and the write included.
fn journal(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let store = playhouse::session::open(folder.path()).unwrap();
    let session = SessionId::new("session").unwrap();
    let epoch = store.own(&session).unwrap();
    let text = "a message of about two hundred bytes, as people and models send them; ".repeat(3);
    let messages = vec![Arc::new(AgentMessage::user(text, 1_794_700_800_000))];
    let mut count = 0_u64;
    let mut entry = || {
        count += 1;
        let body = EntryBody::Restored { input_id: None, messages: messages.clone() };
        Arc::new(Entry { id: format!("session#{count}").into(), loop_id: None, parent: None, at: count, body })
    };
    let mut group = c.benchmark_group("journal");
    let one = entry();
    group.bench_function("a record as a line, with its hash", |b| {
        let mut lines = Vec::new();
        b.iter(|| {
            lines.clear();
            record::encode(&ChainHash::START, Seq(1), 1, &one, &mut lines).unwrap()
        });
    });
    group.bench_function("a record appended, handed to the kernel", |b| {
        b.iter_batched(
            &mut entry,
            |entry| store.append(&session, epoch, &[entry], Sync::Kernel).unwrap(),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// A text of 1 MB in which there is no secret, as almost always.
fn redaction(c: &mut Criterion) {
    let line = |n: usize| format!("fn line_{n}(&self) -> Result<Vec<String>, Error> {{ self.key({n}).await? }}\n");
    let text: String = (0..)
        .map(line)
        .scan(0, |size, line| {
            *size += line.len();
            (*size <= 1_000_000).then_some(line)
        })
        .collect();
    let mut group = c.benchmark_group("redaction");
    group.throughput(Throughput::Bytes(text.len() as u64));
    for count in [0_u64, 1, 20, 100] {
        let value = |n: u64| format!("sk-{:016x}{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15), !n << 7);
        let secrets = Secrets::new((0..count).map(|n| (format!("KEY_{n}"), Secret::new(value(n)))));
        group.bench_function(format!("1 MB, {count} secrets"), |b| b.iter(|| secrets.redact(&text).len()));
        group.bench_function(format!("1 MB in pieces, {count} secrets"), |b| {
            b.iter(|| {
                let mut redactor = secrets.redactor();
                let taken: usize = text.as_bytes().chunks(16 * 1_024).map(|piece| redactor.push(piece).len()).sum();
                taken + redactor.finish().len()
            });
        });
    }
    group.finish();
}

criterion_group!(parts, machine, spawn, hub, decoder, journal, redaction);
criterion_main!(parts);
