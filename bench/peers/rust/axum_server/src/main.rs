//! Owns: axum as a peer: tokio's single-threaded runtime, the same responses as performance_test; files by tower-http's
//! ServeDir, TLS by rustls.
//!
//!   axum_server PORT TLS_PORT FILES CERTIFICATE KEY
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::Router;
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FILE_CHUNK: usize = 256 * 1024; // of one read; the default is 64 KB
static LARGE: [u8; 100 * 1024] = [b'a'; 100 * 1024];

async fn hello() -> impl IntoResponse {
    (
        [(CONTENT_TYPE, "text/plain")],
        Bytes::from_static(b"Hello, World!"),
    )
}

async fn large() -> impl IntoResponse {
    (
        [(CONTENT_TYPE, "application/octet-stream")],
        Bytes::from_static(&LARGE),
    )
}

async fn echo(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket: WebSocket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            let data = matches!(message, Message::Text(_) | Message::Binary(_));
            if data && socket.send(message).await.is_err() {
                return;
            }
        }
    })
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let service = TowerToHyperService::new(router);
    // Responses to pipelined requests leave in one write.
    let connection = http1::Builder::new()
        .pipeline_flush(true)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.with_upgrades().await;
}

async fn listen(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (router, tls) = (router.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => serve(stream, router).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, router).await;
                    }
                }
            }
        });
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, port, tls_port, files, certificate, key] = words.as_slice() else {
        return Err("usage: axum_server PORT TLS_PORT FILES CERTIFICATE KEY".into());
    };
    let router = Router::new()
        .route("/", get(hello))
        .route("/large/100kb", get(large))
        .route("/ws", any(echo))
        .nest_service(
            "/static",
            tower_http::services::ServeDir::new(files).with_buf_chunk_size(FILE_CHUNK),
        );
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    let plain = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    let secure = TcpListener::bind(("127.0.0.1", tls_port.parse()?)).await?;
    tokio::spawn(listen(
        secure,
        router.clone(),
        Some(TlsAcceptor::from(Arc::new(config))),
    ));
    Ok(listen(plain, router, None).await?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Files are read on tokio's blocking threads. On one CPU, more than one of them only adds switches.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    runtime.block_on(run())
}
