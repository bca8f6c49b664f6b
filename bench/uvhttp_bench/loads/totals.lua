-- What wrk rounds in its text, exactly. done() is called once, after the run.
function done(summary, latency, requests)
    local names = {"50", "75", "90", "95", "99", "99.9"}
    local parts = {}
    for i, name in ipairs(names) do
        parts[i] = string.format('"%s":%d', name, latency:percentile(tonumber(name)))
    end
    io.write(string.format('totals {"requests":%d,"bytes":%d,"duration_us":%d,"percentiles_us":{%s}}\n',
        summary.requests, summary.bytes, summary.duration, table.concat(parts, ",")))
end
