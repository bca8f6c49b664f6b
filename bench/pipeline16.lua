-- 16 GETs in each write.
function init(args)
    batch = string.rep(wrk.format("GET", args[1] or "/"), 16)
end

function request()
    return batch
end
