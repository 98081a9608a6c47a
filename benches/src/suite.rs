//! The whole benchmark: every part in child processes, the two sides in turn, the middle of several rounds.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use playhouse::protocol::Durability;

use crate::decode::Format;
use crate::hand::Error;
use crate::meter::Used;
use crate::table::{Beside, Goal, Row, Value, median, number};
use crate::task::{Side, Talk, Task};
use crate::tools::Operation;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// How often the sides take turns.
    pub rounds: usize,
    /// BenchHouse with tools, and the turns of each.
    pub turns: (usize, u64),
    /// Long conversations at once, and the calls between which is measured: at their start, and late.
    pub long: (usize, [(u64, u64); 2]),
    /// BenchHouse on one key, and how many requests it takes at once.
    pub pool: (usize, NonZeroUsize),
    /// Deltas of a response, and bytes to read in all.
    pub decode: (usize, usize),
    /// BenchHouse that stream at once.
    pub streams: Vec<usize>,
    /// How many pieces each, and the milliseconds between them.
    pub pace: (u32, u64),
    /// How many agents wait for a prompt; each number is measured.
    pub idle: Vec<usize>,
    /// Subscribers, and how many events are delivered in all.
    pub fanout: (Vec<usize>, u64),
    /// Sessions, and how many records in all by durability: flushed, not flushed.
    pub journal: (Vec<usize>, (u64, u64)),
    /// Turns with tool calls.
    pub tools: usize,
}

impl Sizes {
    /// What stands in `docs/performance.md`.
    pub fn full() -> Self {
        Self {
            rounds: 5,
            turns: (1_000, 20),
            long: (16, [(1, 21), (180, 200)]),
            pool: (1_000, some(64)),
            decode: (20_000, 500_000_000),
            streams: vec![100, 1_000, 5_000],
            pace: (100, 100),
            idle: vec![10_000, 100_000],
            fanout: (vec![1, 10, 1_000], 2_000_000),
            journal: (vec![1, 100, 1_000], (5_000, 100_000)),
            tools: 50,
        }
    }

    /// Less than a minute.
    pub fn short() -> Self {
        Self {
            rounds: 1,
            turns: (200, 10),
            long: (4, [(1, 21), (180, 200)]),
            pool: (200, some(16)),
            decode: (20_000, 50_000_000),
            streams: vec![100, 1_000],
            pace: (20, 100),
            idle: vec![2_000],
            fanout: (vec![1, 10, 1_000], 200_000),
            journal: (vec![1, 100], (200, 10_000)),
            tools: 20,
        }
    }

    /// Only to see that every part runs.
    pub fn smoke() -> Self {
        Self {
            rounds: 1,
            turns: (3, 2),
            long: (2, [(1, 2), (3, 5)]),
            pool: (5, some(2)),
            decode: (50, 10_000),
            streams: vec![3],
            pace: (3, 5),
            idle: vec![5],
            fanout: (vec![2], 100),
            journal: (vec![2], (4, 20)),
            tools: 1,
        }
    }
}

fn some(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

/// Runs every part whose name contains `only`; `note` is told each row as it comes.
pub fn run(sizes: &Sizes, only: &str, note: &mut dyn FnMut(&Row)) -> Result<Vec<Row>, Error> {
    let mut service = Service::start()?;
    let parts: [(&str, Part); 9] = [
        ("turns", turns),
        ("long", long),
        ("pool", pool),
        ("decode", decode),
        ("streams", streams),
        ("idle", idle),
        ("fanout", fanout),
        ("journal", journal),
        ("tools", tools),
    ];
    let mut rows = Vec::new();
    for (_, part) in parts.iter().filter(|(name, _)| name.contains(only)) {
        for row in part(sizes, &mut service)? {
            note(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}

type Part = fn(&Sizes, &mut Service) -> Result<Vec<Row>, Error>;

fn turns(sizes: &Sizes, service: &mut Service) -> Result<Vec<Row>, Error> {
    let (agents, turns) = sizes.turns;
    let model = format!("tools-{turns}");
    let rounds = service.rounds(sizes.rounds, agents, &model, None)?;
    let count = agents as f64 * (turns + 1) as f64;
    let measure = format!("CPU per turn, {agents} agents at once");
    Ok(vec![rounds.row(measure, Goal::Ratio(1.25), |used| Value::Micros(used.cpu / count))])
}

fn long(sizes: &Sizes, service: &mut Service) -> Result<Vec<Row>, Error> {
    let (agents, spans) = sizes.long;
    let mut rows = Vec::new();
    for (from, to) in spans {
        let model = format!("tools-{}", to + 1);
        let rounds = service.rounds(sizes.rounds, agents, &model, Some((from, to)))?;
        let count = agents as f64 * (to - from) as f64;
        let measure = format!("CPU per turn, turns {from} to {to}, 1 KB results");
        let goal = if rows.is_empty() { Goal::None } else { Goal::Ratio(1.0) };
        rows.push(rounds.row(measure, goal, |used| Value::Micros(used.cpu / count)));
    }
    Ok(rows)
}

fn pool(sizes: &Sizes, service: &mut Service) -> Result<Vec<Row>, Error> {
    let (agents, at_once) = sizes.pool;
    let before = service.connections()?;
    let (side, port, model) = (Side::House, service.port, "tools-3".to_owned());
    in_child(&Task::Talk(Talk { side, port, agents, model, between: None, at_once: Some(at_once) }))?;
    let opened = service.connections()? - before;
    let measure = format!("connections opened by {agents} agents, {at_once} requests at once");
    let most = Value::Count(at_once.get() as f64);
    Ok(vec![Row::alone(measure, Value::Count(opened as f64), Goal::AtMost(most))])
}

fn decode(sizes: &Sizes, _: &mut Service) -> Result<Vec<Row>, Error> {
    let (deltas, bytes) = sizes.decode;
    let mut rows = Vec::new();
    for format in Format::ALL {
        let used = in_child(&Task::Decode { format, deltas, bytes })?;
        let goal = match format {
            Format::Chat => Goal::AtLeast(Value::MegabytesPerSecond(200e6)),
            Format::Anthropic | Format::Responses | Format::Gemini | Format::Bedrock => Goal::None,
        };
        let rate = Value::MegabytesPerSecond(used.growth as f64 / used.cpu);
        rows.push(Row::alone(format!("bytes to events, {}", format.name()), rate, goal));
    }
    Ok(rows)
}

fn streams(sizes: &Sizes, service: &mut Service) -> Result<Vec<Row>, Error> {
    let (pieces, step) = sizes.pace;
    let ideal = f64::from(pieces) * step as f64 / 1e3;
    let model = format!("paced-{pieces}-{step}");
    let mut rows = Vec::new();
    for agents in &sizes.streams {
        // Long and steady, so fewer rounds tell as much.
        let rounds = service.rounds(sizes.rounds.min(3), *agents, &model, None)?;
        let (each, count) = (*agents as f64, *agents as f64 * f64::from(pieces));
        let goals = match agents {
            5_000 => (Goal::AtMost(Value::Kilobytes(40e3)), Goal::AtMost(Value::Times(1.08))),
            _ => (Goal::None, Goal::None),
        };
        let name = |what: &str| format!("{what}, {agents} streaming");
        rows.push(
            rounds.row(name("memory per agent"), goals.0, |used| Value::Kilobytes(used.peak_growth as f64 / each)),
        );
        rows.push(rounds.row(name("wall time over the ideal"), goals.1, |used| Value::Times(used.wall / ideal)));
        rows.push(rounds.row(name("CPU per piece"), Goal::None, |used| Value::Micros(used.cpu / count)));
    }
    Ok(rows)
}

fn idle(sizes: &Sizes, _: &mut Service) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for agents in &sizes.idle {
        let used = in_child(&Task::Idle { agents: *agents })?;
        let each = Value::Kilobytes(used.growth as f64 / *agents as f64);
        rows.push(Row::alone(format!("memory per idle agent, {agents}"), each, Goal::AtMost(Value::Kilobytes(12e3))));
    }
    Ok(rows)
}

fn fanout(sizes: &Sizes, _: &mut Service) -> Result<Vec<Row>, Error> {
    let (subscribers, deliveries) = &sizes.fanout;
    let mut rows = Vec::new();
    for subscribers in subscribers {
        let events = (deliveries / *subscribers as u64).max(1);
        let used = in_child(&Task::Fanout { subscribers: *subscribers, events })?;
        let rate = Value::PerSecond(events as f64 * *subscribers as f64 / used.wall);
        rows.push(Row::alone(format!("events delivered, {subscribers} subscribers"), rate, Goal::None));
    }
    Ok(rows)
}

fn journal(sizes: &Sizes, _: &mut Service) -> Result<Vec<Row>, Error> {
    let (counts, (flushed, unflushed)) = &sizes.journal;
    let mut rows = Vec::new();
    for durability in [Durability::Flush, Durability::Os, Durability::None] {
        for sessions in counts {
            let total = match durability {
                Durability::Flush => *flushed,
                Durability::Os | Durability::None => *unflushed,
            };
            let records = (total / *sessions as u64).max(1);
            let used = in_child(&Task::Journal { durability, sessions: *sessions, records })?;
            let name = match durability {
                Durability::Flush => "flush",
                Durability::Os => "os",
                Durability::None => "none",
            };
            let rate = Value::PerSecond(records as f64 * *sessions as f64 / used.wall);
            rows.push(Row::alone(format!("journal records, `{name}`, {sessions} sessions"), rate, Goal::None));
        }
    }
    Ok(rows)
}

fn tools(sizes: &Sizes, _: &mut Service) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for operation in Operation::ALL {
        let mut rounds = Vec::new();
        for _ in 0..sizes.rounds {
            rounds.push(in_child(&Task::Tools { operation, turns: sizes.tools })?);
        }
        let middle = |of: fn(&Used) -> f64| median(rounds.iter().map(of).collect());
        let call = middle(|used| used.wall);
        let times: Vec<f64> = rounds.iter().filter_map(|used| used.by_hand).collect();
        let (hand, time) = match (times.is_empty(), operation.compared_with()) {
            (false, _) => (Beside::Value(Value::Micros(median(times.clone()))), median(times)),
            (true, Some(program)) => (Beside::Missing(program), 0.0),
            (true, None) => (Beside::Nothing, 0.0),
        };
        let (house, goal) = match operation {
            Operation::Nothing => (call, Goal::None),
            Operation::ReadSmall => (call - time, Goal::AtMost(Value::Micros(50e-6))),
            Operation::ReadLarge => (call - time, Goal::AtMost(Value::Micros(1e-3))),
            Operation::Edit => (call, Goal::AtMost(Value::Micros(200e-6))),
            // Without a comparison there is nothing to reach.
            Operation::Search if matches!(hand, Beside::Missing(_)) => (call, Goal::None),
            Operation::Search => (call, Goal::Ratio(1.0)),
            Operation::Bash => (call, Goal::Ratio(1.5)),
        };
        rows.push(Row {
            measure: operation.name().to_owned(),
            hand,
            house: Value::Micros(house),
            ratio: matches!(goal, Goal::Ratio(_)).then_some(call / time),
            goal,
        });
    }
    Ok(rows)
}

/// What both sides used, round by round.
struct Rounds {
    hand: Vec<Used>,
    house: Vec<Used>,
}

impl Rounds {
    /// The middle values, and the middle of the ratios of each round.
    fn row(&self, measure: String, goal: Goal, value: impl Fn(&Used) -> Value) -> Row {
        let number = |used: &Used| number(value(used));
        let middle = |all: &[Used]| {
            let mut all: Vec<&Used> = all.iter().collect();
            all.sort_by(|a, b| number(a).total_cmp(&number(b)));
            all.get(all.len() / 2).map_or(Value::Count(f64::NAN), |used| value(used))
        };
        let ratios = self.hand.iter().zip(&self.house).map(|(hand, house)| number(house) / number(hand));
        let ratio = Some(median(ratios.collect()));
        Row { measure, hand: Beside::Value(middle(&self.hand)), house: middle(&self.house), ratio, goal }
    }
}

/// The model service, in its own process.
pub struct Service {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Service {
    /// Starts the process, and waits until it says its port.
    pub fn start() -> Result<Self, Error> {
        let mut child = command(&Task::Mock)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().ok_or("the service has no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let port = line.trim().parse()?;
        Ok(Self { child, input, output, port })
    }

    /// The port that it listens at, on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections it has accepted.
    pub fn connections(&mut self) -> Result<u64, Error> {
        Ok(serde_json::from_str(&self.ask("connections")?)?)
    }

    /// How long the request of each turn was, as last seen.
    pub fn bodies(&mut self) -> Result<Vec<u64>, Error> {
        Ok(serde_json::from_str(&self.ask("bodies")?)?)
    }

    fn ask(&mut self, what: &str) -> Result<String, Error> {
        if let Some(input) = &mut self.input {
            writeln!(input, "{what}")?;
        }
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    /// Lets both sides do the same, in turn, and sees that they use as many connections.
    fn rounds(
        &mut self,
        rounds: usize,
        agents: usize,
        model: &str,
        between: Option<(u64, u64)>,
    ) -> Result<Rounds, Error> {
        let mut all = Rounds { hand: Vec::new(), house: Vec::new() };
        for _ in 0..rounds {
            for side in [Side::Hand, Side::House] {
                let before = self.connections()?;
                let talk = Talk { side, port: self.port, agents, model: model.to_owned(), between, at_once: None };
                let used = in_child(&Task::Talk(talk))?;
                let opened = self.connections()? - before;
                // One for the first conversation; after that each agent has at most one request open at a time.
                if opened > agents as u64 + 1 {
                    eprintln!("note: {side:?} opened {opened} connections for {agents} conversations");
                }
                match side {
                    Side::Hand => all.hand.push(used),
                    Side::House => all.house.push(used),
                }
            }
        }
        Ok(all)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Its input ends, so it does; one that does not is ended.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(task: &Task) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("task").arg(serde_json::to_string(task)?);
    Ok(command)
}

/// Does a task in a process of its own.
pub fn in_child(task: &Task) -> Result<Used, Error> {
    let output = command(task)?.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("a process ended with {}: {task:?}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
