//! What a person sees and answers.

pub mod ask;
mod cards;
pub mod entry;
pub mod follow;
mod last_message;
mod live;
mod markdown;
pub mod output;
mod question;
pub mod signals;
mod sub_agents;
pub mod text;
mod totals;
pub mod view;
pub mod wrap;
