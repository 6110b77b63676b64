"""The parts of SGLang's files: with a dial they are the same but for how a request chooses."""

from __future__ import annotations

from tasks.gpu.sglang_file import FIXED, dialled


def test_a_file_with_a_dial_is_loaded_and_verified_as_one_without() -> None:
    dial = dialled("; REQUEST", "CONTENTS", "CONSTANTS", "FUNCTIONS", "OPTIONS", "STEERING")
    assert (dial.asked, dial.verifying) == (FIXED.asked, FIXED.verifying)
    assert dial.functions == FIXED.functions + "FUNCTIONS" and dial.options == FIXED.options + "OPTIONS"
    for parts in (FIXED, dial):
        assert "python -m sglang.launch_server" in parts.usage and "--string" in parts.usage
        assert "class DeltaProcessor(CustomLogitProcessor):" in parts.engine
    assert "_bias(logits.shape[-1]" in FIXED.engine and "_bias(custom_param_list or" in dial.engine
    assert dial.steering.endswith("STEERING") and "def _labels(" in dial.steering
