"""The paper's two experiments on real patches, and what they need: images, methods, other packages, figures."""
