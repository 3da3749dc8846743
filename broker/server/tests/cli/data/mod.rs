//! `tautwire data` and `tautwire serve --recover`.

mod copies;
mod damage;
mod golden;
mod looking;
mod world;
