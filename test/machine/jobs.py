"""Owns: what runs on which kernel. A release of Debian has one kernel for virtual machines, whose version names the job.

The rule: a kernel decides what its calls do: accept, receive, send, sendfile, the ends of connections, timeouts, listening, options of
sockets, io_uring, files, signals, descriptors that are passed, threads that wait. What only parses, computes or prints it cannot change;
that is tested on the developer's kernel. The emulated processor is 20 times slower, so the guest is spared such tests."""
import dataclasses
import re

# --- unit tests ---

# "<folder>", or "<folder>/<topic>" of a folder that else computes alone.
FOLDERS = ("base/standard_fds", "base/thread", "client", "conn", "exchange", "exec", "handler", "io", "middleware/access_log",
           "middleware/rate_limit_redis_thread", "obs", "protocol", "server", "tls", "trace")  # fmt: skip
FOLDERS_COMPUTE_ALONE = ("base", "config", "http1", "http2", "load", "message", "middleware", "route", "websocket")
COMPUTE_ALONE = ("test_exhaustive_*", "test_openssl_memory", "test_static_rules")  # of the folders that run

# --- integration tests ---


@dataclasses.dataclass(frozen=True)
class Part:
    """Tests of a file by name, without "test_": those, or all but those, for which a kernel changes nothing."""

    names: tuple[str, ...] = ()
    others: bool = True

    def of(self, tests):
        return [name for name in tests if (name in self.names) != self.others]


def only(*names):
    return Part(names, others=False)


def all_but(*names):
    return Part(names)


ALL = Part()
# "backend" is of the guest alone: test/machine/test_backend.py.
FILES = {
    "abuse": all_but(  # bounds on the time of a processor, of one that is not emulated
        "a_body_in_single_byte_chunks_costs_no_more_than_it_should", "a_body_sent_in_tiny_segments_costs_no_more_than_it_should"),
    "access_log": only(
        "a_log_that_was_renamed_is_begun_anew", "a_reader_that_does_not_read_stops_nobody", "a_pipe_without_a_reader_does_not_end_the_server",
        "a_fifo_without_a_reader_holds_up_neither_start_nor_rotation_nor_the_end", "a_reader_that_does_not_read_does_not_hold_up_a_rotation",
        "a_full_disk_leaves_whole_lines_and_exact_counts", "a_file_that_cannot_be_opened_ends_the_start"),
    "admin": only("a_unix_socket_is_for_its_owner", "an_inherited_socket_is_judged_by_where_it_listens"),
    "backend": ALL,
    "client": ALL,
    "coroutine": ALL,
    "coroutine_many": ALL,
    "deferred": ALL,
    "drain": ALL,
    "engines": ALL,
    "events": ALL,
    "framing": ALL,
    "http2": all_but(
        "what_is_almost_the_preface_is_http_1", "another_preface_ends_the_connection", "http2_can_be_switched_off",
        "more_requests_at_once_than_allowed_are_refused", "what_a_handler_sees_is_what_was_sent", "head_has_no_body",
        "a_status_without_a_body_ends_with_its_head", "unknown_paths_and_methods", "a_streamed_response_of_the_wrong_size_is_reset",
        "an_upgrade_is_refused", "the_access_log_shows_the_protocol"),
    "http2_tls": only("bodies_of_many_records_go_both_ways", "the_end_is_goaway_and_close_notify"),
    "limits": all_but("a_wrong_setting_is_one_line_with_its_name_and_value"),
    "listen": all_but("wrong_addresses_are_refused_and_named", "all_programs_exist"),
    "log": only(
        "a_blocked_standard_error_holds_up_no_request_and_every_line_is_counted", "a_server_ends_although_nobody_reads_its_standard_error",
        "a_closed_standard_error_ends_nothing"),
    "requests": only(
        "bodies_are_whole", "http_1_0_closes_unless_keep_alive_was_asked_for", "connection_close_is_acknowledged_and_done",
        "expect_continue_gets_an_interim_response_before_the_body", "expect_continue_for_too_large_a_body_is_refused_before_it_is_sent"),
    "responses": all_but(
        "a_plain_response_has_the_headers_that_belong_to_it", "a_status_line_has_version_and_reason", "empty_responses",
        "a_status_out_of_range_is_an_error_of_the_call", "redirects", "headers_of_the_handler",
        "headers_that_would_break_the_framing_are_refused", "a_handler_that_does_not_respond_gives_500_and_is_counted"),
    "service": all_but("a_wrong_umask_is_named", "a_user_that_does_not_exist_ends_the_start"),
    "static": all_but(
        "other_methods_get_405_with_allow", "directories_have_an_index_and_end_with_a_slash", "a_redirect_never_leads_to_another_host",
        "a_redirect_cannot_be_split_by_the_name_of_a_directory", "a_prefix_and_a_group", "a_mount_behind_parameters",
        "types_and_rules_of_the_options", "single_page_applications_fall_back", "fields_that_middleware_has_set_are_not_repeated",
        "if_range", "absurd_ranges_are_counted", "the_compression_middleware_still_compresses_the_rest",
        "a_directory_page_is_escaped_sorted_and_bounded", "a_directory_page_is_filtered_by_a_form", "crumbs_lead_up",
        "a_directory_page_may_load_nothing_but_its_style", "views_of_a_page_do_not_fill_the_cache",
        "the_query_is_the_index_files_own_matter", "the_fallback_can_be_for_navigation_only", "wrong_options_are_refused"),
    "stream_upload": ALL,
    "tcp_echo": only(
        "tcp_echo_sends_back_what_it_gets", "tcp_echo_does_not_grow_for_a_client_that_never_reads", "tcp_echo_drains_at_sigterm",
        "tcp_echo_serves_many_at_once", "tcp_echo_names_a_port_in_use"),
    "threads": ALL,
    "timeouts": ALL,
    "tls": only(
        "curl_gets_and_posts", "httpx_and_http_client_keep_a_connection", "sessions_survive_a_reload_and_any_loop_knows_them",
        "bodies_by_reference_by_copy_and_from_files", "a_file_that_shrinks_ends_the_connection", "responses_of_a_batch_are_one_record",
        "a_request_right_behind_the_handshake_is_served", "large_responses_use_full_records", "long_pipelines",
        "deferred_and_streamed_responses", "every_regular_end_is_announced", "a_drain_serves_what_runs_and_says_goodbye",
        "the_peers_close_notify_is_acknowledged", "reload_takes_new_connections_to_the_new_certificate",
        "no_connection_is_dropped_by_reloads_under_load", "websocket_over_tls", "example_https"),
    "tls_abuse": all_but(
        "plain_http_is_notified_that_this_is_https", "what_is_not_tls_is_closed", "broken_handshakes_are_closed",
        "a_client_that_does_not_trust_us_is_counted", "a_changed_record_ends_the_connection_with_an_alert", "garbage_behind_the_handshake",
        "ticket_of_garbage_is_a_full_handshake"),
    "tls_bodies": ALL,
    "upgrade": all_but("a_lost_or_wrong_response_is_seen"),
    "websocket": all_but(
        "what_is_no_handshake_is_refused_and_counted", "other_methods_are_refused",
        "the_pages_of_the_host_and_clients_without_origin_are_let_in", "a_list_of_origins_replaces_the_own_host",
        "the_first_subprotocol_that_both_speak_is_chosen", "the_application_decides_and_gives_data_along",
        "the_response_to_a_handshake_cannot_be_split", "groups_have_websockets_too", "bad_frames_close_with_the_right_code",
        "limits_of_size_and_fragments", "a_close_that_may_not_be_sent_is_refused"),
    "websocket_topics": all_but("limits_of_topics_and_subscriptions", "a_publication_is_compressed_for_those_who_can_read_it"),
    "worker": ALL,
}  # fmt: skip
KERNEL_TLS_FILES = {"tls_bodies": ALL, "tls_kernel": ALL}
# Files of which the guest runs no test, by the reason.
FILES_LEFT_OUT = {
    "parse and compute": (
        "compression", "cpp", "cpp_site", "forms", "groups", "hpack_stories", "http1_oracle", "http2_abuse", "http2_frames", "http2_oracle",
        "http2_websocket", "interim", "malformed", "metrics", "middleware", "proxy", "rate_limit", "trace", "websocket_deflate"),
    "clients and servers of others, which the guest has not; they meet the calls of the files above":
        ("clients", "disasters", "grpc", "http2_clients", "prometheus", "redis"),
    "the calls are made to fail in the process: no kernel is asked": ("faults", "torture"),
    "options, texts and examples, with the calls of the files above": ("cli", "cli_about", "cli_serve", "examples"),
    "tools for developers": ("attacks", "load", "load_h2", "load_results", "protocols"),
    "bounds on time, of a machine that does nothing else": ("fairness", "websocket_fairness"),
}  # fmt: skip
# What these files start, in the folder of a build.
PROGRAMS = ("dist/bin/benchmark_tcp_echo", "dist/bin/coroutine", "dist/bin/deferred_reply", "dist/bin/embed_in_uv_loop", "dist/bin/events",
            "dist/bin/gateway", "dist/bin/hello", "dist/bin/https", "dist/bin/performance_test", "dist/bin/rest_api", "dist/bin/stream_upload",
            "dist/bin/tcp_echo", "dist/bin/uvhttp", "dist/bin/websocket_echo",
            "test/bin/http_test_server", "test/bin/pattern_server", "test/bin/static_test_server", "test/bin/verify_client",
            "test/bin/websocket_test_server", "test/bin/without_io_uring")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Job:
    suite: str  # of Debian, whose kernel it is
    engines: tuple[str, ...]
    automatic: str  # the backend that `auto` has to choose there
    files: dict[str, Part] = dataclasses.field(default_factory=lambda: FILES)
    folders: tuple[str, ...] = FOLDERS
    kernel_tls: bool = False  # with the kernel's TLS, which has to be used


JOBS = {
    "6.1": Job("bookworm", ("uring",), "io_uring"),
    "5.10": Job("bullseye", ("epoll",), "epoll"),
    "ktls": Job("bookworm", ("uring", "epoll"), "io_uring", KERNEL_TLS_FILES, ("tls",), kernel_tls=True),
}


def unit_tests(sources, chosen):
    """The names of the programs of test/unit/<folder>/test_<topic>.c, for "<folder>" and "<folder>/<topic>"; `sources` are paths of all."""
    names = []
    for path in sorted(sources):
        folder, topic = path.parent.name, path.stem.removeprefix("test_")
        if f"{folder}/{topic}" in chosen or (folder in chosen and not any(path.match(f"{name}.c") for name in COMPUTE_ALONE)):
            names.append(f"test_{folder}_{topic}")
    return names


def tests_of(text):
    """The names of the tests in the text of an integration test file, without "test_"."""
    return re.findall(r"^def test_(\w+)", text, re.MULTILINE)
