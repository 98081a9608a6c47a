//! What a process has used of the machine, by its own account.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process so far, user and system, over all threads.
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Bytes of this process in memory now.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// The most bytes of this process in memory so far.
pub fn peak() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024
}

/// Measures from one moment to another.
#[derive(Debug)]
pub struct Meter {
    cpu: Duration,
    wall: Instant,
    resident: u64,
}

/// What was used between two moments.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Used {
    /// Processor time in seconds.
    pub cpu: f64,
    /// Seconds that went by.
    pub wall: f64,
    /// How many bytes the process grew, at its largest since it started.
    pub peak_growth: u64,
    /// How many bytes the process has grown.
    pub growth: u64,
    /// Seconds of the same work done by hand; none where there is nothing to compare with.
    #[serde(default)]
    pub by_hand: Option<f64>,
}

impl Meter {
    /// Measures from here on.
    pub fn start() -> Self {
        Self { cpu: cpu(), wall: Instant::now(), resident: resident() }
    }

    /// What was used since.
    pub fn read(&self) -> Used {
        Used {
            cpu: (cpu().saturating_sub(self.cpu)).as_secs_f64(),
            wall: self.wall.elapsed().as_secs_f64(),
            peak_growth: peak().saturating_sub(self.resident),
            growth: resident().saturating_sub(self.resident),
            by_hand: None,
        }
    }
}
