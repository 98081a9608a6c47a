//! What a person sees and answers.

pub mod ask;
pub mod follow;
pub mod output;
mod question;
pub mod signals;
mod sub_agents;
pub mod text;
mod totals;
pub mod view;
