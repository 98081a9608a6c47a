//! What each command does.

pub mod audit;
pub mod completions;
pub mod config;
mod damaged;
pub mod demo;
pub mod doctor;
pub mod models;
pub mod plan;
pub mod resume;
pub mod run;
pub mod sessions;
