"""The paper's two experiments on real patches, and what they need: images, rivals, other packages, pictures."""
