"""pandas, Polars and Arrow in and out of tables with a schema; none of them is imported unless one of its frames is."""

from privot.tables.frames.frame_form import FRAME_KINDS, FrameForm, frame_kind
from privot.tables.frames.frame_reading import encode_frame
from privot.tables.frames.frame_writing import frame_of

__all__ = ["FRAME_KINDS", "FrameForm", "encode_frame", "frame_kind", "frame_of"]
