//! `tautwire data` and `tautwire serve --recover`.

mod copies;
mod damage;
mod golden;
mod golden_files;
mod inspect;
mod world;
