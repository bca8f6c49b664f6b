//! Owns: actix-web as a peer: one worker, the same responses as performance_test; files by actix-files, TLS by rustls,
//! WebSocket by actix-ws.
//!
//!   actix_server PORT TLS_PORT FILES CERTIFICATE KEY
use actix_web::{web, App, HttpRequest, HttpResponse, HttpServer};
use actix_ws::Message;
use bytes::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::ServerConfig;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static LARGE: [u8; 100 * 1024] = [b'a'; 100 * 1024];

async fn hello() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/plain")
        .body(Bytes::from_static(b"Hello, World!"))
}

async fn large() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/octet-stream")
        .body(Bytes::from_static(&LARGE))
}

async fn echo(req: HttpRequest, body: web::Payload) -> actix_web::Result<HttpResponse> {
    let (response, mut session, mut messages) = actix_ws::handle(&req, body)?;
    actix_web::rt::spawn(async move {
        while let Some(Ok(message)) = messages.recv().await {
            let sent = match message {
                Message::Text(text) => session.text(text).await,
                Message::Binary(data) => session.binary(data).await,
                Message::Ping(data) => session.pong(&data).await,
                Message::Close(_) => break,
                _ => Ok(()),
            };
            if sent.is_err() {
                return;
            }
        }
        let _ = session.close(None).await;
    });
    Ok(response)
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, port, tls_port, files, certificate, key] = words.as_slice() else {
        return Err("usage: actix_server PORT TLS_PORT FILES CERTIFICATE KEY".into());
    };
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    let files = files.clone();
    let server = HttpServer::new(move || {
        App::new()
            .route("/", web::get().to(hello))
            .route("/large/100kb", web::get().to(large))
            .route("/ws", web::get().to(echo))
            // Files are in the page cache: reading them on this thread saves two switches for each 64 KB.
            .service(actix_files::Files::new("/static", &files).read_mode_threshold(u64::MAX))
    });
    server
        .workers(1)
        .worker_max_blocking_threads(1)
        .keep_alive(Duration::from_secs(60))
        .bind(("127.0.0.1", port.parse::<u16>()?))?
        .bind_rustls_0_23(("127.0.0.1", tls_port.parse::<u16>()?), config)?
        .run()
        .await?;
    Ok(())
}
