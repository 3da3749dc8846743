//! A PostgreSQL server of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio_postgres::{Client, NoTls};

use super::process::Process;
use super::{free_port, wait_for};

/// Where Debian installs the programs that users do not call.
const DEBIAN: &str = "/usr/lib/postgresql";

pub(crate) struct Postgres {
    port: u16,
    process: Process,
}

impl Postgres {
    pub(crate) async fn start(folder: &Path) -> Postgres {
        let port = free_port();
        let data = folder.join("postgres");
        std::fs::create_dir(&data).unwrap();
        if is_root() {
            assert!(Command::new("chown").arg("postgres").arg(&data).status().unwrap().success());
        }
        let mut initdb = program("initdb");
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync", "--pgdata"]).arg(&data).stdout(Stdio::null());
        assert!(initdb.status().unwrap().success());
        let log = folder.join("postgres.log");
        let process = Process::new(move || {
            let log = std::fs::File::options().create(true).append(true).open(&log).unwrap();
            let mut command = program("postgres");
            command.arg("-D").arg(&data).arg("-k").arg(&data).args(["-p", &port.to_string(), "-h", "127.0.0.1"]);
            command.args(["-c", "shared_buffers=32MB"]).stderr(log);
            command
        });
        let mut postgres = Postgres { port, process };
        postgres.restart().await;
        postgres
    }

    /// Kills the server as a crash would, and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        let (port, process) = (self.port, &mut self.process);
        wait_for("PostgreSQL", async || {
            // It refuses to start while a process of the killed server is left.
            if !process.is_running() {
                process.start();
            }
            connect(port).await
        })
        .await;
    }

    pub(crate) fn url(&self) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    pub(crate) async fn client(&self) -> Client {
        wait_for("PostgreSQL", || connect(self.port)).await
    }

    /// The first column of the first row, as a number.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.client().await.query_one(query, &[]).await.unwrap().get(0)
    }
}

async fn connect(port: u16) -> Option<Client> {
    let url = format!("postgresql://postgres@127.0.0.1:{port}/postgres");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

/// A program of the server, which refuses to run as root.
fn program(name: &str) -> Command {
    let installed = std::fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .filter_map(|version| Some(version.ok()?.path().join("bin").join(name)));
    let path = installed.filter(|path| path.exists()).max().unwrap_or_else(|| PathBuf::from(name));
    if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(path);
        command
    } else {
        Command::new(path)
    }
}
