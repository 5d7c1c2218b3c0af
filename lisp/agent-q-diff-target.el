;;; agent-q-diff-target.el --- What an edit under review would change  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Reads from a call's arguments which file it changes and how, looks at the
;; live text (the visiting buffer's, or else the file's), and notices when
;; that changes.

;;; Code:

(require 'agent-q-text)
(require 'cl-lib)

(defconst agent-q-diff-target-tools
  '(("propose_file_edit" "modified" "original")
    ("edit_file" "new_str" "old_str")
    ("write_file" "content" nil)
    ("create_file" "content" nil))
  "The tools that change files.
An element has the name, the argument with the new text, and the one with
the text that it replaces; nil means the whole file.")

(cl-defstruct (agent-q-diff-edit (:constructor agent-q-diff-target--make) (:copier nil))
  "An edit of the file PATH, which is FILE as an absolute name.
BASE is replaced by PROPOSED; the argument FIELD of ARGUMENTS holds it.
FIELD nil means that the core has planned it and takes the whole texts.
WHOLE means that BASE is the whole text, NEW that there is none yet, ONE
that only all of it makes sense, which NOTE then explains.
STAMP is what the target looked like, and TROUBLE why it can't be done."
  path file base proposed field arguments whole new one note stamp trouble)

(defun agent-q-diff-target-planned (preview arguments)
  "Return the edit in PREVIEW, the core's; ARGUMENTS are those of the call."
  (pcase-let ((`(,path ,file ,original ,modified ,divisible ,note) preview))
    (agent-q-diff-target--make
     :path (agent-q-text-clean path) :file file :arguments arguments
     :base (or original "") :proposed modified :whole t :new (null original)
     :one (not divisible) :note (agent-q-text-clean note)
     :stamp (agent-q-diff-target--stamp file))))

(defun agent-q-diff-target-edit (tool arguments root)
  "Return the edit that a call of TOOL with ARGUMENTS would do, or nil.
Relative paths start at ROOT, the project's."
  (pcase-let* ((`(,_ ,field ,old) (or (assoc tool agent-q-diff-target-tools)
                                      (car agent-q-diff-target-tools)))
               (path (gethash "path" arguments))
               (proposed (gethash field arguments))
               (original (and old (gethash old arguments))))
    (when (and (stringp path) (stringp proposed) root
               (not (file-remote-p path)))
      (let* ((file (expand-file-name path root))
             (live (agent-q-diff-target--live file))
             (edit (agent-q-diff-target--make
                    :path path :file file :proposed proposed :field field
                    :arguments arguments :new (null live)
                    :stamp (agent-q-diff-target--stamp file))))
        (setf (agent-q-diff-edit-base edit)
              (if (stringp original) original
                (agent-q-diff-target--like proposed (or live "")))
              (agent-q-diff-edit-whole edit)
              (or (not (stringp original))
                  (equal original (agent-q-diff-target--like original (or live "")))))
        (when (and (stringp original)
                   (not (agent-q-diff-target--holds-p (or live "") original)))
          (setf (agent-q-diff-edit-trouble edit)
                "The file does not hold the text that the model would replace"))
        edit))))

(defun agent-q-diff-target--buffer (file)
  "Return the buffer that visits FILE, or nil."
  (get-file-buffer file))

(defun agent-q-diff-target--live (file)
  "Return the text of FILE as it is now, or nil when there is no such file."
  (if-let ((buffer (agent-q-diff-target--buffer file)))
      (with-current-buffer buffer
        (save-restriction
          (widen)
          (buffer-substring-no-properties (point-min) (point-max))))
    (when (file-regular-p file)
      (with-temp-buffer
        (insert-file-contents file)
        (buffer-string)))))

(defun agent-q-diff-target--like (model text)
  "Return TEXT, read from a file, with the line ends that MODEL has.
Emacs hides carriage returns that end all lines of a file."
  (if (and (string-search "\r\n" model)
           (not (string-search "\r\n" text)))
      (string-replace "\n" "\r\n" text)
    text))

(defun agent-q-diff-target--holds-p (live original)
  "Whether LIVE has ORIGINAL in it, whatever its line ends."
  (string-search (string-replace "\r\n" "\n" original)
                 (string-replace "\r\n" "\n" live)))

(defun agent-q-diff-target--stamp (file)
  "Return a value that is another one once FILE has changed."
  (if-let ((buffer (agent-q-diff-target--buffer file)))
      (cons buffer (buffer-chars-modified-tick buffer))
    (let ((attributes (file-attributes file)))
      (list (file-attribute-modification-time attributes)
            (file-attribute-size attributes)
            (file-attribute-inode-number attributes)))))

(defun agent-q-diff-target-changed-p (edit)
  "Whether the target of EDIT was changed since the review began."
  (not (equal (agent-q-diff-edit-stamp edit)
              (agent-q-diff-target--stamp (agent-q-diff-edit-file edit)))))

(defun agent-q-diff-target-rebase (edit)
  "Return what EDIT has to replace in the target as it is now.
Signal an error when that is not there."
  (let* ((file (agent-q-diff-edit-file edit))
         (live (or (agent-q-diff-target--live file) ""))
         (base (agent-q-diff-edit-base edit)))
    (prog1
        (cond ((agent-q-diff-edit-whole edit) (agent-q-diff-target--like base live))
              ((agent-q-diff-target--holds-p live base) base)
              (t (user-error "The text that the edit would replace is not there any more")))
      (setf (agent-q-diff-edit-stamp edit) (agent-q-diff-target--stamp file)
            (agent-q-diff-edit-trouble edit) nil))))

(provide 'agent-q-diff-target)
;;; agent-q-diff-target.el ends here
