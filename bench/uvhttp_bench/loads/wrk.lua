-- What wrk sends, and its whole histograms in lines that start with "#bench". Arguments: pipeline, method, body's file.
local ffi = require("ffi")
ffi.cdef [[typedef struct { uint64_t count, limit, min, max; uint64_t data[]; } bench_stats_t;]]

local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

function init(args)
    local pipeline, method, file = tonumber(args[1] or 1), args[2] or "GET", args[3]
    wrk.method = method
    if file then
        local handle = assert(io.open(file, "rb"))
        wrk.body = handle:read("*a")
        handle:close()
        wrk.headers["Content-Type"] = "application/json"
    end
    request_bytes = #wrk.format()
    if pipeline > 1 then
        local batch = string.rep(wrk.format(), pipeline)
        request = function() return batch end
    end
end

-- wrk counts latencies in an array with an element for each microsecond. Its own interface walks the array anew for each
-- value, which takes minutes when answers took seconds; the minimum and maximum show that the layout is the known one.
local function write_histogram(latency)
    local stats = ffi.cast("bench_stats_t **", latency)[0]
    if tonumber(stats.max) ~= latency.max or tonumber(stats.min) ~= latency.min or stats.max > stats.limit then
        for i = 1, #latency do
            local value, count = latency(i)
            io.write(string.format("#bench h %d %d\n", value, count))
        end
        return
    end
    for value = tonumber(stats.min), tonumber(stats.max) do
        if stats.data[value] > 0 then
            io.write(string.format("#bench h %d %d\n", value, tonumber(stats.data[value])))
        end
    end
end

function done(summary, latency, requests)
    local errors, cpu = summary.errors, os.clock() -- before what follows here adds to it
    io.write(string.format("#bench cpu %.6f\n", cpu))
    io.write(string.format("#bench request %d\n", threads[1]:get("request_bytes")))
    io.write(string.format("#bench summary %d %d %d\n", summary.requests, summary.duration, summary.bytes))
    io.write(string.format("#bench errors %d %d %d %d %d\n", errors.connect, errors.read, errors.write, errors.timeout,
        errors.status))
    io.write(string.format("#bench rates %.3f %.3f\n", requests.mean, requests.stdev))
    if latency.max > 0 then write_histogram(latency) end
end
