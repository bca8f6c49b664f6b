//! Owns: may_minihttp as a peer: one worker of may's coroutines, the same responses as performance_test, without files and TLS.
//!
//!   may_server PORT
use may_minihttp::{HttpServer, HttpService, Request, Response};
use std::io;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone)]
struct Responses {
    large: &'static str,
}

impl HttpService for Responses {
    fn call(&mut self, req: Request, response: &mut Response) -> io::Result<()> {
        match req.path() {
            "/" => response
                .header("Content-Type: text/plain")
                .body("Hello, World!"),
            "/large/100kb" => {
                response.header("Content-Type: application/octet-stream");
                response.body(self.large);
            }
            _ => {
                response.status_code(404, "Not Found");
            }
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let port: u16 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .expect("usage: may_server PORT");
    // The benchmark chooses the CPU, so may must not.
    may::config().set_workers(1).set_worker_pin(false);
    let large = "a".repeat(100 * 1024).leak();
    HttpServer(Responses { large })
        .start(("127.0.0.1", port))?
        .wait();
    Ok(())
}
