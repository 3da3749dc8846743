//! The cluster's seed, which the first node draws and which never changes.

use async_nats::Client;
use ring::rand::{SecureRandom, SystemRandom};
use tautwire_cluster::names::{Partition, Seed};

use crate::error::Error;
use crate::jetstream::{Failure, bounds, last, write};
use crate::layout::{CONFIG, NODE, SEED, SESSION, bucket_stream, log_stream};

/// The version of the record: one byte, followed by the seed.
const VERSION: u8 = 1;
const ATTEMPTS: usize = 5;

pub(super) async fn obtain(client: &Client) -> Result<Seed, Error> {
    for _ in 0..ATTEMPTS {
        if let Some(seed) = read(client).await? {
            return Ok(seed);
        }
        // The seed is written before anything else, so a node that has written data has found one. Read again, because another node may
        // have started meanwhile.
        if !is_new(client).await? {
            return read(client).await?.ok_or(Error::SeedLost);
        }
        create(client, draw()?).await?;
    }
    Err(failed(&Failure::Unanswered("the seed was written but cannot be read".to_owned())))
}

fn draw() -> Result<Seed, Error> {
    let mut seed = [0; 16];
    SystemRandom::new().fill(&mut seed).map_err(|_| Error::System { why: "there are no random numbers".to_owned() })?;
    Ok(Seed(seed))
}

pub(super) async fn read(client: &Client) -> Result<Option<Seed>, Error> {
    let stored = last(client, &bucket_stream(CONFIG), &key()).await.map_err(|failure| failed(&failure))?;
    match stored.filter(|stored| !stored.is_removal).as_ref().map(|stored| &*stored.payload) {
        None => Ok(None),
        Some([VERSION, seed @ ..]) => Ok(Some(Seed(seed.try_into().map_err(|_| Error::SeedUnreadable)?))),
        Some(_) => Err(Error::SeedUnreadable),
    }
}

async fn create(client: &Client, Seed(seed): Seed) -> Result<(), Error> {
    let record = [&[VERSION][..], &seed].concat();
    match write(client, key(), 0, &[], record).await {
        // The next read shows whether another node was faster, or the answer was lost.
        Ok(_) | Err(Failure::Unanswered(_)) => Ok(()),
        Err(failure) => Err(failed(&failure)),
    }
}

/// Whether no data that depends on a seed was written.
async fn is_new(client: &Client) -> Result<bool, Error> {
    let logs = Partition::all().map(log_stream);
    for stream in [bucket_stream(NODE), bucket_stream(SESSION)].into_iter().chain(logs) {
        if bounds(client, &stream).await.map_err(|failure| failed(&failure))?.last != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn key() -> String {
    format!("$KV.{CONFIG}.{SEED}")
}

fn failed(failure: &Failure) -> Error {
    Error::Stream { name: bucket_stream(CONFIG), why: failure.to_string(), is_transient: true }
}
