"""Uses what was installed as a user would: a server of its own, a task, a message, what the model sees."""

import contextstore
import contextstore_bin

with contextstore.spawn() as client:
    task = client.start_task(user="ada")
    seq = task.append({"role": "user", "content": "From a wheel."}).seq
    (message,) = task.current_messages()
    assert (seq, message["content"]) == (1, "From a wheel."), (seq, message)
    print(f"Python: {contextstore_bin.binary()} serves {client.server_info().version}")
